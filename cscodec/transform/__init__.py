"""Pictures to planes, patches and measurements, and back: analysis and synthesis side by side."""
