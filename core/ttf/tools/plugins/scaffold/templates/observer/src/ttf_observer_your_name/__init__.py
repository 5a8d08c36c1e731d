"""The observer `your-name` for ttf: `plugin` has the hooks, `_file` is what they write to."""
