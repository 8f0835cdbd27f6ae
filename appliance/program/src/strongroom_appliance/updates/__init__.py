"""Updates of the appliance's image: a whole root, written beside the running one and tried."""
