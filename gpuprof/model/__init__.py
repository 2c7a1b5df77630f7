"""Pure maths on values: from the metrics of one launch to work, traffic, rooflines, occupancy and stalls."""
