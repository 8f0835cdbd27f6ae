"""Setting up the appliance from one answer file: `strongroom setup appliance`."""
