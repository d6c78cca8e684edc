"""Files that agents declare in their documents, written safely below the project, and accounted for block by block."""
