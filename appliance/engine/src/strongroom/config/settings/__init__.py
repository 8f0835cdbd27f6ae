"""Settings of daemons, as frozen dataclasses with types: one module a kind of resource.

`configuration.DirectorConfiguration` holds those of a director by name. It is built and checked
once, when a configuration is loaded (`build`), from the resolved resources of
`strongroom.config.model`: JobDefs and defaults are in it already. A reference is the name of what
it refers to, "" where there is none; numbers say their unit in their name, and 0 means no
limit. Two configurations that say the same are equal. `reading` fills a dataclass from a resource,
`findings` puts what could not be carried out at the directive that says it.
"""
