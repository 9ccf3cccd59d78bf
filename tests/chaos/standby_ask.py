"""``standby_ask.py ADDRESS MODULE ARGUMENTS…``: ask for a fork that is MODULE, and last as long as it does.

It stands in the place of the program: SIGTERM is handed on, and who kills this process's group kills the fork.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    address, module, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    asked = {"module": module, "arguments": arguments, "environment": dict(os.environ), "group": os.getpgrp()}
    message = json.dumps(asked).encode() + b"\n"
    sent = socket.send_fds(connection, [message], [1, 2])
    connection.sendall(message[sent:])
    fork = int(connection.recv(100))

    def hand_on(number: int, frame: object) -> None:
        os.kill(fork, number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGINT, hand_on)
    while connection.recv(100):
        pass


if __name__ == "__main__":
    main()
