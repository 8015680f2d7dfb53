"""Every byte region of every file kind, damaged: nothing may be lost in silence."""
