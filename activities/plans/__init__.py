"""Plans: what each kind of operation would do, found out without changing anything."""
