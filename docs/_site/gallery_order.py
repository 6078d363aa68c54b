"""The order of the examples: the first one first, the others by title."""

from sphinx_gallery.sorting import ExampleTitleSortKey


class QuickstartFirst(ExampleTitleSortKey):
    def __call__(self, filename):
        return (filename != "plot_quickstart.py", super().__call__(filename))
