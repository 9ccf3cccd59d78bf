"""Taking over clusters that others made: everything is read, nothing believed."""
