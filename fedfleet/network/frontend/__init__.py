"""A frontend: the process that holds the connections of devices, checks reports and adds them up."""
