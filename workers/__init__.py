"""The deployable daemons, thin around what the package does."""
