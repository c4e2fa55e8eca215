"""How good a coded picture is, and how that is shown."""
