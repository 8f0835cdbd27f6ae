"""What tests of the appliance use: machines, disks, terminals."""
