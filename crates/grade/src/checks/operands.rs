//! The two sides of an equality: how far the arithmetic before it and after it reaches.
//!
//! From the sign it goes left and right over numbers, operators and brackets, and over words that are units. It ends at
//! prose, punctuation, another relation or the end of a line. Where it ends at a letter, an index or a function, the
//! side is not closed and there is nothing to check. Where the words around may change the value, the side has a
//! doubt: it can be found right, never wrong.

use std::ops::Range;

use super::lex::{Kind, Token};
use super::words;

/// Most tokens of one side.
const MAX_TOKENS: usize = 240;

/// One side of an equality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) tokens: Range<usize>,
    /// Something around it may change its value.
    pub(super) doubt: bool,
    /// A dash before it begins a line: a sign or a bullet.
    pub(super) bullet: bool,
    /// Right after words: `Step 2 = …` names something.
    pub(super) after_word: bool,
}

/// The tokens of a step.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
}

/// A value may end with this.
pub(super) fn ends_value(kind: Kind) -> bool {
    use Kind::{Bang, Close, Degree, Money, Number, Percent, Pi, Raised, Vulgar};
    matches!(kind, Number | Vulgar | Close | Percent | Degree | Bang | Raised(_) | Pi | Money)
}

/// A value may begin with this.
pub(super) fn begins_value(kind: Kind) -> bool {
    matches!(kind, Kind::Number | Kind::Vulgar | Kind::Open | Kind::Pi | Kind::Money) || is_prefix(kind)
}

/// A command whose argument follows.
pub(super) fn is_prefix(kind: Kind) -> bool {
    matches!(kind, Kind::Frac | Kind::Sqrt | Kind::Binom | Kind::Function)
}

pub(super) fn is_operator(kind: Kind) -> bool {
    matches!(kind, Kind::Plus | Kind::Minus | Kind::Times | Kind::Divide | Kind::Caret)
}

pub(super) fn is_word(kind: Kind) -> bool {
    matches!(kind, Kind::Word | Kind::Text)
}

/// Only layout: it neither begins nor ends anything right beside a relation.
pub(super) fn is_layout(kind: Kind) -> bool {
    matches!(kind, Kind::Align | Kind::Dollar | Kind::Mark | Kind::Break | Kind::Row)
}

/// Punctuation and relations: nothing of the arithmetic is beyond.
fn ends_side(kind: Kind) -> bool {
    use Kind::{Approx, Break, Colon, Comma, Equal, Gap, Question, Relation, Row, Semicolon, Stop};
    matches!(
        kind,
        Equal | Approx | Relation | Break | Row | Gap | Comma | Stop | Semicolon | Colon | Question
    )
}

/// What ends a side.
pub(super) enum End {
    /// Punctuation, prose, another relation: nothing of the arithmetic is left out.
    Clean,
    /// As clean, but the value may be another.
    Doubtful,
}

impl Line<'_> {
    pub(super) fn word(&self, at: usize) -> &str {
        &self.text[self.tokens[at].range()]
    }

    pub(super) fn kind(&self, at: usize) -> Kind {
        self.tokens.get(at).map_or(Kind::Break, |token| token.kind)
    }

    pub(super) fn opener(&self, at: usize) -> u8 {
        let range = self.tokens[at].range();
        self.text.as_bytes()[range.end - 1]
    }

    /// The side that ends at the relation `relation`.
    pub(super) fn left(&self, relation: usize) -> Option<Operand> {
        let mut end = relation;
        while end > 0 && is_layout(self.kind(end - 1)) {
            end -= 1;
        }
        let lowest = end.saturating_sub(MAX_TOKENS);
        let mut start = end;
        let ended = loop {
            if start == lowest {
                break if lowest == 0 { End::Clean } else { return None };
            }
            match self.leftwards(start, end, lowest) {
                Way::On(at) => start = at,
                Way::Ends(end) => break end,
                Way::Open => return None,
            }
        };
        self.finish_left(start, end, &ended)
    }

    /// One step to the left of `start`, of a side that ends at `end`.
    fn leftwards(&self, start: usize, end: usize, lowest: usize) -> Way {
        let at = start - 1;
        let kind = self.kind(at);
        let begun = start < end;
        let spaced = self.tokens.get(start).is_some_and(|token| token.spaced);
        let after_operator = at > 0 && is_operator(self.kind(at - 1));
        match kind {
            _ if begun && (kind == Kind::Pi || begins_value(kind)) && self.apart(at) => {
                Way::Ends(End::Doubtful)
            }
            Kind::Close => match self.opening(at, lowest) {
                Some(_) if begun && self.labels(at) => Way::Ends(End::Doubtful),
                Some(open) => Way::On(open),
                // `1) 5 + 3 = 8`, not `a)(b + c)`.
                None if begun && spaced => Way::Ends(End::Clean),
                None => Way::Open,
            },
            Kind::Open if self.is_attached(at) || (self.opener(at) == b'{' && !self.is_boxed(at)) => {
                Way::Open
            }
            Kind::Word | Kind::Text => self.words_leftwards(start, end, lowest),
            Kind::Dollar => self.dollar_leftwards(start, end),
            Kind::Mark | Kind::Align => Way::On(at),
            _ if is_operator(kind) || ends_value(kind) || is_prefix(kind) => Way::On(at),
            Kind::Break | Kind::Row | Kind::Stop | Kind::Comma if after_operator => Way::Open,
            Kind::Row if is_operator(self.kind(start)) => Way::Open,
            // `3 : 4 = 6 : 8`, `1,2 + 3`.
            Kind::Colon if self.tokens[at].spaced || !spaced => Way::Open,
            Kind::Comma if !spaced => Way::Open,
            // `14, 400`.
            Kind::Comma if at > 0 && self.kind(at - 1) == Kind::Number && self.is_group(start) => {
                Way::Ends(End::Doubtful)
            }
            Kind::Open => Way::Ends(End::Clean),
            _ if ends_side(kind) => Way::Ends(End::Clean),
            _ => Way::Open,
        }
    }

    /// Words to the left of `start`: a unit that belongs to the side, prose, or a name.
    fn words_leftwards(&self, start: usize, end: usize, lowest: usize) -> Way {
        let first = self.run_start(start, lowest);
        let before = if first > lowest { self.kind(first - 1) } else { Kind::Break };
        let next = self.kind(start);
        let unit = ends_value(before)
            && (start == end || is_operator(next) || is_layout(next))
            && words::is_unit(self.text, &self.tokens[first..start]);
        if unit || before == Kind::Divide {
            return Way::On(first);
        }
        if start == end || self.joins_left(start) {
            return Way::Open;
        }
        // `25 classmates + his teacher + 1 more`: the sum begins before the words. A list's bullet is no operator.
        let goes_on = is_operator(before)
            && first >= 2
            && (ends_value(self.kind(first - 2)) || is_word(self.kind(first - 2)));
        if goes_on { Way::Ends(End::Doubtful) } else { Way::Ends(self.before(start)) }
    }

    /// A letter that is read as a unit may be a variable: `9π h`.
    fn has_letter(&self, tokens: Range<usize>) -> bool {
        tokens.into_iter().any(|at| match self.kind(at) {
            Kind::Word => self.word(at).len() == 1,
            Kind::Text => words::content(self.word(at)).len() == 1,
            _ => false,
        })
    }

    /// A dollar to the left of `start`: inside the side as in `$3$ + $4$`, or where it begins.
    fn dollar_leftwards(&self, start: usize, end: usize) -> Way {
        let before = if start >= 2 { self.kind(start - 2) } else { Kind::Break };
        let inside =
            is_operator(before) || (start < end && is_operator(self.kind(start)) && ends_value(before));
        match inside {
            true => Way::On(start - 1),
            false if is_word(before) => Way::Ends(self.before(start - 1)),
            false => Way::Ends(End::Clean),
        }
    }

    /// What the words before `at` make of the side that begins there.
    fn before(&self, at: usize) -> End {
        let first = (at.saturating_sub(4)..at)
            .rev()
            .take_while(|word| is_word(self.kind(*word)))
            .last()
            .unwrap_or(at);
        let mut names = [""; 4];
        (first..at).zip(&mut names).for_each(|(word, name)| *name = self.word(word));
        let names = &names[..at - first];
        let value = (first.saturating_sub(2)..first).rev().find(|before| self.kind(*before) != Kind::Dollar);
        let value = value.is_some_and(|before| ends_value(self.kind(before)));
        // `1 and 1/4`, not `so 2 + 2 = 4 and 3 + 4 = 7`.
        let first = if self.kind(at) == Kind::Dollar { at + 1 } else { at };
        let fraction =
            matches!(self.kind(first), Kind::Frac | Kind::Vulgar) || self.kind(first + 1) == Kind::Divide;
        let value = value && (names != ["and"] || fraction);
        if words::take_part(names, value) { End::Doubtful } else { End::Clean }
    }

    /// Trims what the way to the left has taken too much.
    fn finish_left(&self, mut start: usize, end: usize, ended: &End) -> Option<Operand> {
        while start < end && is_layout(self.kind(start)) {
            start += 1;
        }
        let first = self.kind(start);
        let mut bullet = false;
        if start < end && (is_operator(first)) {
            let at_line_start = start == 0
                || self.kind(start - 1) == Kind::Gap && !self.word(start - 1).starts_with('\\')
                || (self.kind(start - 1) == Kind::Break && !self.goes_on_from(start - 1));
            let spaced = self.tokens.get(start + 1).is_some_and(|token| token.spaced);
            let is_mark = spaced && (first == Kind::Minus || matches!(self.word(start), "+" | "*"));
            if at_line_start && is_mark {
                bullet = first == Kind::Minus;
                start += 1;
            } else if first != Kind::Minus || self.follows_line(start) {
                return None;
            }
        }
        let broken = start > 0 && self.kind(start - 1) == Kind::Break && self.goes_on_from(start - 1);
        let after_word =
            start > 0 && is_word(self.kind(start - 1)) && !words::introduces(self.word(start - 1));
        let doubt = broken
            || matches!(ended, End::Doubtful)
            || (after_word && self.is_range(start, end))
            || self.has_letter(start..end);
        (start < end).then_some(Operand { tokens: start..end, doubt, bullet, after_word })
    }

    /// The side that begins after the relation `relation`.
    pub(super) fn right(&self, relation: usize) -> Option<Operand> {
        let mut start = relation + 1;
        while start < self.tokens.len() && (is_layout(self.kind(start)) || self.is_box(start)) {
            start += 1;
        }
        let highest = (start + MAX_TOKENS).min(self.tokens.len());
        let mut end = start;
        let ended = loop {
            if end == highest {
                break if highest == self.tokens.len() { End::Clean } else { return None };
            }
            match self.rightwards(start, end, highest) {
                Way::On(at) => end = at,
                Way::Ends(end) => break end,
                Way::Open => return None,
            }
        };
        // `1 - 2/3 = 1/3 of the $150`: the part may be meant, or what it is.
        let is_share = (start..end).any(|at| self.kind(at) == Kind::Times && self.word(at) == "of");
        let doubt = matches!(ended, End::Doubtful) || is_share || self.has_letter(start..end);
        (start < end).then_some(Operand { tokens: start..end, doubt, bullet: false, after_word: false })
    }

    /// One step to the right from `at`, of a side that begins at `start`.
    fn rightwards(&self, start: usize, at: usize, highest: usize) -> Way {
        let kind = self.kind(at);
        let begun = at > start;
        let next = self.kind(at + 1);
        match kind {
            Kind::Open => self.bracket_rightwards(start, at, highest),
            _ if begun && (kind == Kind::Pi || begins_value(kind)) && self.apart(at - 1) => {
                Way::Ends(End::Doubtful)
            }
            Kind::Close => Way::Ends(End::Clean),
            Kind::Word | Kind::Text => self.word_after(start, at, highest),
            Kind::Dollar => self.dollar_rightwards(start, at),
            Kind::Minus | Kind::Plus | Kind::Times if is_word(next) => Way::Open,
            Kind::Mark => Way::On(at + 1),
            _ if is_operator(kind) || ends_value(kind) || is_prefix(kind) => Way::On(at + 1),
            Kind::Row | Kind::Break | Kind::Align => Way::Ends(self.next_line(at)),
            Kind::Colon if next == Kind::Number => Way::Open,
            Kind::Comma if next == Kind::Number && !self.tokens[at + 1].spaced => Way::Open,
            Kind::Question => Way::Ends(End::Doubtful),
            _ if ends_side(kind) => Way::Ends(End::Clean),
            _ => Way::Open,
        }
    }

    /// A bracket at `at`: a factor, or a remark such as `(since 3 + 9 = 12)` or `(1)`.
    fn bracket_rightwards(&self, start: usize, at: usize, highest: usize) -> Way {
        let Some(close) = self.closing(at, highest) else { return Way::Open };
        let apart = at > start && self.tokens[at].spaced && ends_value(self.kind(at - 1));
        if apart && self.opener(at) != b'{' {
            // `2 (AB - 1)`.
            if self.kind(at + 1) == Kind::Word && self.word(at + 1).bytes().all(|b| b.is_ascii_uppercase()) {
                return Way::Open;
            }
            if self.kind(at + 1) == Kind::Word && self.tokens[at + 1].range().len() > 1 {
                return Way::Ends(End::Clean);
            }
            if close == at + 2 {
                return Way::Ends(End::Doubtful);
            }
        }
        Way::On(close + 1)
    }

    /// A dollar at `at`: inside the side as in `$3$ + $4$`, or where it ends.
    fn dollar_rightwards(&self, start: usize, at: usize) -> Way {
        let before = if at > start { self.kind(at - 1) } else { Kind::Break };
        let goes_on = is_operator(self.kind(at + 1)) && ends_value(before) && self.value_follows(at + 2);
        if is_operator(before) || goes_on { Way::On(at + 1) } else { Way::Ends(self.beyond(at + 1)) }
    }
}

/// What a token is to a side.
pub(super) enum Way {
    /// The side goes on there.
    On(usize),
    Ends(End),
    /// The side is not closed.
    Open,
}
