//! Limits on a template's source, before it is parsed.
//!
//! minijinja folds constants while it compiles, recursively and for every operator anew. So an expression is kept short,
//! and `*`, which makes much of little, is never constant: `'x' * 9` becomes `'x' *(1|int)* 9`.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

const MAX_SOURCE: usize = 1 << 20;
const MAX_TOKENS: usize = 1_000;
const MAX_LITERALS: usize = 64 << 10;

/// The source to compile in place of `source`.
pub(crate) fn checked(source: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    let refuse = |what: &str| {
        let message = format!("the template's limit of {what} is exceeded");
        Err(Error::new(ErrorKind::SyntaxError, message))
    };
    if source.len() > MAX_SOURCE {
        return refuse("1 MiB of source");
    }
    let mut out = String::with_capacity(source.len());
    let mut copied = 0;
    let (mut tokens, mut literals) = (0, 0);
    let mut after_operand = false;
    for token in tokenize(source, false, syntax.clone()) {
        // What cannot be read is said by the parser, with its line.
        let Ok((token, span)) = token else { break };
        match &token {
            Token::VariableStart | Token::BlockStart => (tokens, literals) = (0, 0),
            Token::Str(text) => literals += text.len(),
            Token::String(text) => literals += text.len(),
            // A star without a left operand unpacks arguments.
            Token::Mul if after_operand => {
                let end = span.end_offset as usize;
                out.push_str(&source[copied..end]);
                out.push_str("(1|int)*");
                copied = end;
            }
            _ => {}
        }
        after_operand = matches!(
            token,
            Token::Ident(_)
                | Token::Str(_)
                | Token::String(_)
                | Token::Int(_)
                | Token::Int128(_)
                | Token::Float(_)
                | Token::BracketClose
                | Token::ParenClose
                | Token::BraceClose
        );
        tokens += 1;
        if tokens > MAX_TOKENS {
            return refuse("1,000 tokens in one tag");
        }
        if literals > MAX_LITERALS {
            return refuse("64 KiB of literals in one tag");
        }
    }
    out.push_str(&source[copied..]);
    Ok(out)
}
