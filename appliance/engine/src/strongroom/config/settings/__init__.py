"""What a director is told, as frozen dataclasses with types: one module a kind of resource.

`configuration.DirectorConfiguration` holds all of them by name. It is made once, when a
configuration is loaded, from the resolved resources of `strongroom.config.model`: JobDefs and
defaults are in it already. A reference is the name of what it refers to, "" where there is none;
numbers say their unit in their name, and 0 stands for no limit. Two configurations that say the
same are equal.

What a well-formed configuration says that the director could not carry out is found by
`strongroom.config.feasibility`.
"""
