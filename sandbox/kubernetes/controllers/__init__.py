"""What runs a cluster: each module is a controller that reacts to changes and to the sandbox's clock."""
