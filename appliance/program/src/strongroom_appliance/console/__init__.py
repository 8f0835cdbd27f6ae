"""The menu on the console: curses, so it works on tty1 and on a serial line alike."""
