"""Makes the pages of the site: of Markdown, headers, protos, docstrings, notebooks and what programs print."""
