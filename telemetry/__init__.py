"""What the processes tell of themselves: traces, metrics and logs. It knows ``contracts`` alone."""
