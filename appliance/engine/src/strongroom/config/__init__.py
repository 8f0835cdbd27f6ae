"""The Bareos configuration language: parse, check, explain, print.

From bottom to top, each package importing only from those above it here:

    table       the one table of directives (schema, types, dialects); it drives the rest
    language    text to statements: files within bounds, what an `@` means, lexer, grammar
                (pyparsing over kinds of tokens), diagnostics with their places
    values      parts of a statement to typed values; pyparsing where a value has its own grammar
    trees       statements to blocks of directives, with recovery after an error; the loader that
                reads all files of a component, and the printer of the canonical layout
    model, resolve
                references, JobDefs, defaults: the frozen result, read by the name of a directive
    settings    what a director is set to, as frozen dataclasses with types; built once at load, and
                checked for what a daemon could not carry out
    reports     what is reported of a configuration: effective values, effects, differences,
                conversion from Bareos and Bacula, JSON Schema, the reference documentation

`strongroom.cli.commands.config` is their command line.

Nothing here is imported by a program that reads no configuration: pyparsing is slow to load.
"""
