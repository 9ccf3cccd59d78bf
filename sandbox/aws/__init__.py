"""The AWS APIs of the sandbox, on moto where moto is right and on code of our own where it is not."""
