"""Writers for the tracking tools that people have, fed from the journal."""
