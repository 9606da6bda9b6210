"""The parser's tables: `python -m luminal.dsl.grammar.make` (or `make tables`) makes them from `sexpr.lark`."""

from .parser import Tables

# fmt: off

MADE_BY = '1.3.1'
MADE_OF = '43bd035b71b2c55ec6f5a1063cb35eb9c17806c323a497554b8717977487346e'
TABLES = Tables(
    lexer='(?P<BLOCK_COMMENT>(?s:#\\|.*?\\|#))|(?P<ORDER><>|<\\d+([ ,\t]+\\d+)*([ \t]*:strided)?[ \t]*>)|(?P<ATOM>[^\\s()\\[\\]{},;"\']+)|(?P<STRING>(?s:"(\\\\.|[^"\\\\])*"))|(?P<COMMENT>;[^\n]*)|(?P<SPACE>\\s+)|(?P<COMMA>,)|(?P<LBRACE>\\{)|(?P<LPAR>\\()|(?P<LSQB>\\[)|(?P<QUOTE>\')|(?P<RBRACE>\\})|(?P<RPAR>\\))|(?P<RSQB>\\])',
    ignored=('QUOTE', 'SPACE', 'COMMENT', 'BLOCK_COMMENT'),
    rules=(
        ('start', 1, True),
        ('start', 0, True),
        ('form', 1, False),
        ('form', 1, False),
        ('form', 1, False),
        ('form', 1, False),
        ('form', 1, False),
        ('list', 3, True),
        ('list', 2, True),
        ('list', 3, True),
        ('list', 2, True),
        ('list', 3, True),
        ('list', 2, True),
        ('__start_star_0', 1, False),
        ('__start_star_0', 2, False),
    ),
    states=(
        {'$END': -2, 'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'STRING': 7, '__start_star_0': 8, 'form': 9, 'list': 10, 'start': 11},
        {'$END': -4, 'ATOM': -4, 'COMMA': -4, 'LBRACE': -4, 'LPAR': -4, 'LSQB': -4, 'ORDER': -4, 'RBRACE': -4, 'RPAR': -4, 'RSQB': -4, 'STRING': -4},
        {'$END': -7, 'ATOM': -7, 'COMMA': -7, 'LBRACE': -7, 'LPAR': -7, 'LSQB': -7, 'ORDER': -7, 'RBRACE': -7, 'RPAR': -7, 'RSQB': -7, 'STRING': -7},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RBRACE': 12, 'STRING': 7, '__start_star_0': 13, 'form': 9, 'list': 10},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RPAR': 14, 'STRING': 7, '__start_star_0': 15, 'form': 9, 'list': 10},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RSQB': 16, 'STRING': 7, '__start_star_0': 17, 'form': 9, 'list': 10},
        {'$END': -6, 'ATOM': -6, 'COMMA': -6, 'LBRACE': -6, 'LPAR': -6, 'LSQB': -6, 'ORDER': -6, 'RBRACE': -6, 'RPAR': -6, 'RSQB': -6, 'STRING': -6},
        {'$END': -5, 'ATOM': -5, 'COMMA': -5, 'LBRACE': -5, 'LPAR': -5, 'LSQB': -5, 'ORDER': -5, 'RBRACE': -5, 'RPAR': -5, 'RSQB': -5, 'STRING': -5},
        {'$END': -1, 'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'STRING': 7, 'form': 18, 'list': 10},
        {'$END': -14, 'ATOM': -14, 'COMMA': -14, 'LBRACE': -14, 'LPAR': -14, 'LSQB': -14, 'ORDER': -14, 'RBRACE': -14, 'RPAR': -14, 'RSQB': -14, 'STRING': -14},
        {'$END': -3, 'ATOM': -3, 'COMMA': -3, 'LBRACE': -3, 'LPAR': -3, 'LSQB': -3, 'ORDER': -3, 'RBRACE': -3, 'RPAR': -3, 'RSQB': -3, 'STRING': -3},
        {},
        {'$END': -13, 'ATOM': -13, 'COMMA': -13, 'LBRACE': -13, 'LPAR': -13, 'LSQB': -13, 'ORDER': -13, 'RBRACE': -13, 'RPAR': -13, 'RSQB': -13, 'STRING': -13},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RBRACE': 19, 'STRING': 7, 'form': 18, 'list': 10},
        {'$END': -9, 'ATOM': -9, 'COMMA': -9, 'LBRACE': -9, 'LPAR': -9, 'LSQB': -9, 'ORDER': -9, 'RBRACE': -9, 'RPAR': -9, 'RSQB': -9, 'STRING': -9},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RPAR': 20, 'STRING': 7, 'form': 18, 'list': 10},
        {'$END': -11, 'ATOM': -11, 'COMMA': -11, 'LBRACE': -11, 'LPAR': -11, 'LSQB': -11, 'ORDER': -11, 'RBRACE': -11, 'RPAR': -11, 'RSQB': -11, 'STRING': -11},
        {'ATOM': 1, 'COMMA': 2, 'LBRACE': 3, 'LPAR': 4, 'LSQB': 5, 'ORDER': 6, 'RSQB': 21, 'STRING': 7, 'form': 18, 'list': 10},
        {'$END': -15, 'ATOM': -15, 'COMMA': -15, 'LBRACE': -15, 'LPAR': -15, 'LSQB': -15, 'ORDER': -15, 'RBRACE': -15, 'RPAR': -15, 'RSQB': -15, 'STRING': -15},
        {'$END': -12, 'ATOM': -12, 'COMMA': -12, 'LBRACE': -12, 'LPAR': -12, 'LSQB': -12, 'ORDER': -12, 'RBRACE': -12, 'RPAR': -12, 'RSQB': -12, 'STRING': -12},
        {'$END': -8, 'ATOM': -8, 'COMMA': -8, 'LBRACE': -8, 'LPAR': -8, 'LSQB': -8, 'ORDER': -8, 'RBRACE': -8, 'RPAR': -8, 'RSQB': -8, 'STRING': -8},
        {'$END': -10, 'ATOM': -10, 'COMMA': -10, 'LBRACE': -10, 'LPAR': -10, 'LSQB': -10, 'ORDER': -10, 'RBRACE': -10, 'RPAR': -10, 'RSQB': -10, 'STRING': -10},
    ),
    last=11,
)
