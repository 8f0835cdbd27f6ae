"""The Bareos configuration language: parse, check, explain, print.

How a tree becomes objects, each step a module:

    sources, includes   files within bounds; what an `@` means
    lexer               text to statements: name, and the tokens of its value with their kinds
    grammar             pyparsing over the kinds: where the parts of a value are
    values, run_schedule, destinations, measures, fileset_options
                        parts to typed values (pyparsing where a value has a grammar of its own)
    parser              statements to blocks of directives, with recovery after an error
    schema, keywords    the one table that drives all of it
    loader              a path to the trees of its components
    resolve, model      references, JobDefs, defaults: the frozen result a program uses
    diagnostics         every finding of one pass, with its place

On top of the parsed tree: printer (fmt), difference (diff), effects (explain), convert,
json_schema and reference (the documentation). Their command line is
`strongroom.cli.commands.config`.

Nothing here is imported by a program that reads no configuration: pyparsing is slow to load.
"""
