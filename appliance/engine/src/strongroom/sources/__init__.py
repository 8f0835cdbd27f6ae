"""Where the content of a snapshot comes from: files, standard input, a command, plugins.

What is imported here is for plugins (docs/reference/filesets.md); the engine imports the
modules themselves.
"""

from strongroom.sources.source import DEFAULT_STREAM_NAME, Source, SourceRequest, Stream
from strongroom.sources.stream import DescriptorStream

__all__ = ["DEFAULT_STREAM_NAME", "DescriptorStream", "Source", "SourceRequest", "Stream"]
