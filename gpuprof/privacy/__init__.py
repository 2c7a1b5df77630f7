"""What of a recording may leave the machine: arguments, environment, hosts, users, folders and secrets are left out."""
