//! What stands around a side: words after a number, brackets that belong together, the ends of lines.

use super::lex::{Kind, Token};
use super::operands::{End, Line, Way, begins_value, ends_value, is_layout, is_operator, is_prefix, is_word};
use super::words::{self, After};

impl Line<'_> {
    /// The words at `at`, after a number.
    pub(super) fn word_after(&self, start: usize, at: usize, highest: usize) -> Way {
        if at == start {
            return Way::Open;
        }
        let first = self.tokens[at];
        if !ends_value(self.kind(at - 1)) {
            return Way::Open;
        }
        match words::after_number(self.text, first, self.tokens.get(at + 1).map(|token| token.kind)) {
            After::Variable => return Way::Open,
            After::Changes => return Way::Ends(End::Doubtful),
            After::Word => {}
        }
        let mut end = at;
        while end < highest && is_word(self.kind(end)) {
            end += 1;
        }
        let run = &self.tokens[at..end];
        // `cm^2`, `miles / hour`.
        let mut next = end;
        if self.kind(next) == Kind::Caret || matches!(self.kind(next), Kind::Raised(_)) {
            next = self.power_end(next);
        }
        while self.kind(next) == Kind::Divide && is_word(self.kind(next + 1)) {
            next += 2;
        }
        let is_unit = words::is_unit(self.text, run);
        let goes_on = is_operator(self.kind(next)) && self.value_follows(next + 1);
        if is_unit && (goes_on || next > end) {
            return Way::On(next);
        }
        if is_unit && matches!(self.kind(next), Kind::Equal | Kind::Approx | Kind::Close) {
            return Way::On(next);
        }
        Way::Ends(if self.value_goes_on(run, end) { End::Doubtful } else { End::Clean })
    }

    /// The words after a result, which may be its unit: `= 2 hours`, `= 99}$ cents`.
    pub(super) fn unit_after(&self, end: usize) -> Option<String> {
        let start = (end..end + 3).find(|at| !matches!(self.kind(*at), Kind::Close | Kind::Dollar))?;
        let words = (start..start + 3).take_while(|at| is_word(self.kind(*at))).map(|at| self.word(at));
        let unit = words.map(|word| words::content(word).to_lowercase()).collect::<Vec<_>>().join(" ");
        (!unit.is_empty()).then_some(unit)
    }

    /// `2 hours 30 minutes`, `3 and 1/2`, `5 remainder 2`, `3 with remainder 1`.
    pub(super) fn value_goes_on(&self, run: &[Token], end: usize) -> bool {
        let text = |token: &Token| &self.text[token.range()];
        let changes = run.iter().take(4).any(|token| {
            matches!(
                text(token),
                "remainder" | "mod" | "modulo" | "base" | "dozen" | "million" | "thousand" | "hundred"
            )
        });
        let last_is_and = run.last().is_some_and(|token| matches!(text(token), "and" | "to"));
        let part = begins_value(self.kind(end)) && run.len() <= 3;
        changes || (part && (run.len() == 1 || last_is_and) && !self.begins_equality(end))
    }

    /// A number with an operator after it, as in `= 7 and 2 * 2 = 4`, and no fraction as in `= 3 and 1/2`.
    fn begins_equality(&self, at: usize) -> bool {
        let next = self.kind(at + 1);
        self.kind(at) == Kind::Number && is_operator(next) && next != Kind::Divide
    }

    /// The end of a unit's power.
    pub(super) fn power_end(&self, at: usize) -> usize {
        match (self.kind(at), self.kind(at + 1), self.kind(at + 2), self.kind(at + 3)) {
            (Kind::Raised(_), ..) => at + 1,
            (Kind::Caret, Kind::Number, ..) => at + 2,
            (Kind::Caret, Kind::Open, Kind::Number, Kind::Close) => at + 4,
            _ => at,
        }
    }

    /// A value, or a sign or dollar before one.
    pub(super) fn value_follows(&self, at: usize) -> bool {
        let kind = self.kind(at);
        begins_value(kind) || (matches!(kind, Kind::Dollar | Kind::Minus) && begins_value(self.kind(at + 1)))
    }

    /// What comes after the dollar that closes the formula.
    pub(super) fn beyond(&self, at: usize) -> End {
        match self.kind(at) {
            Kind::Word | Kind::Text => {
                let changes = words::after_number(
                    self.text,
                    self.tokens[at],
                    self.tokens.get(at + 1).map(|token| token.kind),
                ) == After::Changes;
                let word = self.word(at);
                let goes_on = matches!(word, "and") && begins_value(self.kind(at + 1));
                if changes || goes_on { End::Doubtful } else { End::Clean }
            }
            kind if is_operator(kind) || begins_value(kind) || kind == Kind::Question => End::Doubtful,
            _ => End::Clean,
        }
    }

    /// A line ends at `at`: with an operator first, the next one may belong to it.
    pub(super) fn next_line(&self, at: usize) -> End {
        let next = (at..self.tokens.len().min(at + 8))
            .find(|next| !is_layout(self.kind(*next)) && self.kind(*next) != Kind::Gap);
        let goes_on = next.is_some_and(|next| {
            is_operator(self.kind(next))
                && (self.kind(at) != Kind::Break
                    || begins_value(self.kind(next + 1))
                    || self.kind(next) == Kind::Divide)
        });
        if goes_on { End::Doubtful } else { End::Clean }
    }

    /// The line before the break at `at` ends within a formula.
    pub(super) fn goes_on_from(&self, at: usize) -> bool {
        let before = (at.saturating_sub(4)..at).rev().find(|before| !is_layout(self.kind(*before)));
        before.is_some_and(|before| match self.kind(before) {
            Kind::Close => self.opener(before) == b'}',
            kind => {
                is_operator(kind)
                    || matches!(kind, Kind::Number | Kind::Command | Kind::Other | Kind::Raised(_))
            }
        })
    }

    /// A line's end or a gap right before: what begins with an operator there goes on from before.
    pub(super) fn follows_line(&self, start: usize) -> bool {
        let before = (start.saturating_sub(3)..start).rev().find(|at| self.kind(*at) != Kind::Align);
        before.is_some_and(|at| matches!(self.kind(at), Kind::Gap | Kind::Break | Kind::Row))
    }

    /// `1-2` of `Weeks 1-2`, and `6-8-10`.
    pub(super) fn is_range(&self, start: usize, end: usize) -> bool {
        end - start >= 3
            && self.kind(start) == Kind::Number
            && self.tokens[start + 1..end]
                .iter()
                .all(|token| !token.spaced && matches!(token.kind, Kind::Number | Kind::Minus))
    }

    /// Two values side by side that are no mixed number: `in 2010 3 + 4`.
    pub(super) fn apart(&self, at: usize) -> bool {
        let (first, second) = (self.kind(at), self.kind(at + 1));
        if first != Kind::Number || !matches!(second, Kind::Number | Kind::Vulgar) {
            return first == Kind::Close && second == Kind::Number && self.tokens[at + 1].spaced;
        }
        let fraction = self.kind(at + 2) == Kind::Divide && self.kind(at + 3) == Kind::Number;
        second == Kind::Number && !fraction
    }

    /// Three digits, as after the comma of thousands.
    pub(super) fn is_group(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Number && token.range().len() == 3)
    }

    /// `(1) 5 + 3`: a number of an item or equation, not a factor.
    pub(super) fn labels(&self, close: usize) -> bool {
        self.opener(close) != b'}'
            && matches!(self.kind(close + 1), Kind::Number | Kind::Vulgar | Kind::Frac)
            && self.tokens[close + 1].spaced
    }

    /// A letter right before the side: `f(2)`, `x2`.
    pub(super) fn joins_left(&self, start: usize) -> bool {
        let next = &self.tokens[start];
        let letter = self.tokens[start - 1].range().len() == 1 && self.word(start - 1) != "a";
        let name = || {
            let word = self.word(start - 1);
            let short = word.len() <= 3
                && !matches!(word, "is" | "are" | "get" | "and" | "so" | "or" | "of" | "be" | "was");
            short && self.text.as_bytes()[next.range().start] == b'\\'
        };
        !next.spaced || is_operator(next.kind) && next.kind != Kind::Minus || letter || name() || {
            // `Total - 3 = 4`: a dash or a difference.
            next.kind == Kind::Minus && self.tokens.get(start + 1).is_none_or(|token| token.spaced)
        }
    }

    /// `2/6, 2/8 = 1/3, 1/4`: what is equal are lists, of which these are the last and the first.
    pub(super) fn is_list(&self, left: usize, right: usize) -> bool {
        use Kind::{Approx, Break, Comma, Equal, Relation, Row, Semicolon, Stop, Word};
        // Whether the item at an edge of the equality, up to the next comma, is a value and no other equality.
        let is_value = |tokens: &mut dyn Iterator<Item = usize>| {
            tokens
                .map(|at| self.kind(at))
                .take_while(|kind| !matches!(kind, Break | Row | Stop | Comma | Semicolon))
                .all(|kind| !matches!(kind, Equal | Approx | Relation | Word))
        };
        left >= 2
            && (self.kind(left - 1), self.kind(right)) == (Comma, Comma)
            && ends_value(self.kind(left - 2))
            && begins_value(self.kind(right + 1))
            && is_value(&mut (0..left - 1).rev())
            && is_value(&mut (right + 1..self.tokens.len()))
    }

    pub(super) fn run_start(&self, start: usize, lowest: usize) -> usize {
        let mut first = start;
        while first > lowest && is_word(self.kind(first - 1)) {
            first -= 1;
        }
        first
    }

    /// The bracket that opens what is closed at `close`.
    pub(super) fn opening(&self, close: usize, lowest: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in (lowest..=close).rev() {
            match self.kind(at) {
                Kind::Close => depth += 1,
                Kind::Open => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                Kind::Break | Kind::Row => return None,
                _ => {}
            }
        }
        None
    }

    pub(super) fn closing(&self, open: usize, highest: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in open..highest {
            match self.kind(at) {
                Kind::Open => depth += 1,
                Kind::Close => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// `\boxed` or the brace after it.
    pub(super) fn is_box(&self, at: usize) -> bool {
        self.kind(at) == Kind::Command && matches!(self.word(at), "\\boxed" | "\\fbox")
    }

    pub(super) fn is_boxed(&self, open: usize) -> bool {
        open > 0 && self.is_box(open - 1)
    }

    /// A bracket with a name right before it: `P(`, `_{`, `2(`.
    pub(super) fn is_attached(&self, open: usize) -> bool {
        !self.tokens[open].spaced && open > 0 && !self.is_boxed(open) && {
            let before = self.kind(open - 1);
            ends_value(before)
                || matches!(before, Kind::Word | Kind::Text | Kind::Command | Kind::Caret | Kind::Other)
                || is_prefix(before)
        }
    }
}
