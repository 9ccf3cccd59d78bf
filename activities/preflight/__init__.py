"""Everything that can be known before anything is made. Reads only."""
