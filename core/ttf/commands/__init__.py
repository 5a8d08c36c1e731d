"""The commands of `ttf`, one file each: a click command named `command`, imported on use."""
