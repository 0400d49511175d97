"""The parser of the text form.

The grammar, as EBNF; `#` starts a comment, line ends inside brackets do not count:

    module      = [ "profile" ":" NAME END ] body ;
    body        = { instruction END | "inputs" ":" values END } "outputs" ":" [ values ] ;
    instruction = values "=" ( VALUE | application ) [ ":" type { "," type } ] ;
    values      = VALUE { "," VALUE } [ "," ] ;
    application = WORD "(" [ argument { "," argument } [ "," ] ] ")"
                  [ "{" [ key { "," key } [ "," ] ] "}" ] ;
    argument    = VALUE | key | parameter ;
    key         = WORD ( ":" | "=" ) parameter ;
    parameter   = NUMBER | "inf" | "-inf" | "nan" | "nan" "(" HEX ")" | "true" | "false" | "none"
                | STRING | complex | list | type | WORD | application | "graph" "(" body ")" ;
    complex     = "(" parameter "," parameter ")" ;
    list        = "[" [ item { "," item } [ "," ] ] "]" ;
    item        = parameter | INTEGER ":" INTEGER [ ":" INTEGER ] ;
    type        = ( "Tensor" | "tensor" ) "<" DTYPE [ "," ] "[" [ dimension { "," dimension } ] "]"
                  [ "," "varying" ":" list ] ">" ;
    dimension   = INTEGER | "?" ;
    END         = line end | ";" ;
    VALUE       = "%" digits ;

Only a copy (`%8 = %7`) may leave out its type. Lists, graphs and applied words nest at most
64 deep; integers fit 64 bits.
"""

from pullback.static.parser.parser import parse

__all__ = ["parse"]
