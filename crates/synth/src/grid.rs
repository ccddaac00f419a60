//! Where one object is relative to another, from relations between neighbours (spatial reasoning).
//!
//! ```text
//! Several objects stand on a square grid; the lamp is at (0, 0). The vase is 2 squares left of the lamp. ...
//! Where is the drum relative to the lamp?
//! ```
//! A solution walks from object to object, adding up coordinates (right and up are positive), and reads the
//! direction off the last position.

use super::dice::Dice;
use super::kinds::ErrorKind;
use super::plan::{Draft, Piece, Plan, PlanBody, RECALL, Recall};
use super::words::capital;
use gradus_core::Domain;

const OBJECTS: &[&str] = &[
    "lamp", "vase", "drum", "chair", "clock", "kettle", "globe", "basket", "mirror", "radio", "candle",
    "puzzle", "helmet", "teapot", "ladder", "pumpkin",
];

/// A position or a move: squares to the right, squares up.
type Vector = (i64, i64);

/// Objects on the way from the origin to the one asked about. Object 0 stands at the origin.
pub(super) struct Grid {
    objects: Vec<&'static str>,
    /// `moves[i]` leads from object `i` to object `i + 1`.
    moves: Vec<Vector>,
}

/// A step that places object `i + 1`, as it is written.
struct Placing {
    i: usize,
    /// The object it is placed from.
    from: &'static str,
    base: Vector,
    /// The move as the text of the problem is quoted.
    quoted: Vector,
    /// The move as it is added.
    added: Vector,
    result: Vector,
}

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let steps = d as usize + 1;
    let others = d as usize;
    let objects = dice.sample(OBJECTS, steps + 1 + others);
    let moves = loop {
        let moves: Vec<_> = (0..steps).map(|_| any_move(d, dice)).collect();
        let end = moves.iter().copied().fold((0, 0), sum);
        // Coming back to a square where something stands would make two objects share it.
        if end != (0, 0) && distinct(&moves) {
            break moves;
        }
    };
    let mut facts: Vec<(&str, &str, Vector)> =
        moves.iter().enumerate().map(|(i, &by)| (objects[i], objects[i + 1], by)).collect();
    for &extra in &objects[steps + 1..] {
        let near = dice.between(0, steps as i64) as usize;
        facts.push((objects[near], extra, any_move(d, dice)));
    }
    if d >= 2 {
        dice.shuffle(&mut facts);
    }
    let mut context =
        vec![format!("Several objects stand on a square grid; the {} is at (0, 0).", objects[0])];
    for (from, to, by) in facts {
        let (from, to, by) =
            if d >= 3 && dice.chance(0.4) { (to, from, (-by.0, -by.1)) } else { (from, to, by) };
        context.push(capital(&relation(from, to, by)) + ".");
    }
    let (first, last) = (objects[0], objects[steps]);
    let question = match dice.between(0, 1) {
        0 => format!("Where is the {last} relative to the {first}?"),
        _ => format!("In which direction from the {first} is the {last}?"),
    };
    let options =
        "Answer with left, right, above, below, upper left, upper right, lower left or lower right.";
    let text = format!("{} {question} {options}", context.join(" "));
    let grid = Grid { objects: objects[..=steps].to_vec(), moves };
    Plan { context, text, domain: Domain::Spatial, body: PlanBody::Grid(grid) }
}

/// Straight up to difficulty 2, sometimes diagonal after that.
fn any_move(d: i64, dice: &mut Dice) -> Vector {
    let length = |dice: &mut Dice| dice.between(1, 2 + d) * dice.pick(&[-1, 1]);
    let (x, y) = (length(dice), length(dice));
    match dice.between(0, if d >= 3 { 2 } else { 1 }) {
        0 => (x, 0),
        1 => (0, y),
        _ => (x, y),
    }
}

fn sum(a: Vector, b: Vector) -> Vector {
    (a.0 + b.0, a.1 + b.1)
}

/// A quarter turn: in another direction whatever the vector.
fn turned((x, y): Vector) -> Vector {
    (-y, x)
}

fn distinct(moves: &[Vector]) -> bool {
    let mut seen = vec![(0, 0)];
    moves.iter().all(|&by| {
        let next = sum(seen[seen.len() - 1], by);
        let new = !seen.contains(&next);
        seen.push(next);
        new
    })
}

/// `the vase is 2 squares left of the lamp`.
fn relation(from: &str, to: &str, by: Vector) -> String {
    let squares = |n: i64| format!("{} square{}", n.abs(), if n.abs() == 1 { "" } else { "s" });
    let across = if by.0 < 0 { "left" } else { "right" };
    match by {
        (x, 0) => format!("the {to} is {} {across} of the {from}", squares(x)),
        (0, y) => format!("the {to} is {} {} the {from}", squares(y), if y < 0 { "below" } else { "above" }),
        (x, y) => {
            let along = if y < 0 { "below" } else { "above" };
            format!("the {to} is {} {across} of and {} {along} the {from}", squares(x), squares(y))
        }
    }
}

fn direction(at: Vector) -> &'static str {
    match (at.0.signum(), at.1.signum()) {
        (-1, 0) => "left",
        (1, 0) => "right",
        (0, 1) => "above",
        (0, -1) => "below",
        (-1, 1) => "upper left",
        (1, 1) => "upper right",
        (-1, -1) => "lower left",
        (1, -1) => "lower right",
        _ => "the same place",
    }
}

fn show((x, y): Vector) -> String {
    format!("({x}, {y})")
}

impl Grid {
    fn steps(&self) -> usize {
        self.moves.len()
    }

    fn position(&self, object: usize) -> Vector {
        self.moves[..object].iter().copied().fold((0, 0), sum)
    }

    fn placing(&self, i: usize, base: Vector) -> Placing {
        let by = self.moves[i];
        Placing { i, from: self.objects[i], base, quoted: by, added: by, result: sum(base, by) }
    }

    fn place(&self, placing: &Placing) -> Piece {
        let Placing { i, from, base, quoted, added, result } = *placing;
        let object = self.objects[i + 1];
        let formula = format!("{} + {} = {}", show(base), show(added), show(result));
        let quote = relation(from, object, quoted);
        Piece {
            what: format!("the position of the {object}"),
            listed: format!("{quote}, so {formula}"),
            reason: format!("{quote} and {formula}"),
            formula: format!("{formula}, since {quote}"),
            words: format!("{quote} at {}", show(base)),
            claim: format!("the {object} is at {}", show(result)),
            recall: None,
        }
    }

    /// The step that reads the direction off the last position.
    fn conclude(&self, at: Vector, direction: &str) -> Piece {
        let (first, last) = (self.objects[0], self.objects[self.steps()]);
        let words = format!("{} compared with (0, 0) is {direction}", show(at));
        Piece {
            what: format!("the direction from the {first} to the {last}"),
            formula: format!("{direction}, since {words}"),
            listed: words.clone(),
            reason: words.clone(),
            words,
            claim: format!("the direction from the {first} to the {last} is {direction}"),
            recall: None,
        }
    }

    fn recall(&self, object: usize, at: Vector) -> Recall {
        let name = self.objects[object];
        Recall {
            what: format!("the position of the {name}"),
            value: show(at),
            claim: format!("the {name} is at {}", show(at)),
        }
    }

    /// The steps from object `start` at `at` to the conclusion, and the direction found.
    fn walk(&self, start: usize, at: Vector, dice: &mut Dice, recall: f64) -> (Vec<Piece>, &'static str) {
        let mut at = at;
        let mut pieces = Vec::new();
        for i in start..self.steps() {
            let placing = self.placing(i, at);
            let mut piece = self.place(&placing);
            if i > 0 && dice.chance(recall) {
                piece.recall = Some(self.recall(i, at));
            }
            at = placing.result;
            pieces.push(piece);
        }
        pieces.push(self.conclude(at, direction(at)));
        (pieces, direction(at))
    }

    fn answer(&self) -> &'static str {
        direction(self.position(self.steps()))
    }

    pub(super) fn solve(&self, dice: &mut Dice, recall: f64) -> Draft {
        let (pieces, answer) = self.walk(0, (0, 0), dice, recall);
        Draft { pieces, answer: answer.to_owned(), right: true, first_error: None, propagated: false }
    }

    pub(super) fn spoil(&self, kind: ErrorKind, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let mut places: Vec<usize> = (0..self.steps() + 2).collect();
        dice.shuffle(&mut places);
        places.into_iter().find_map(|place| match place.checked_sub(self.steps()) {
            None => self.spoil_placing(kind, place, propagate, dice),
            Some(0) => self.spoil_direction(kind, propagate, dice),
            Some(_) => self.spoil_answer(kind, dice),
        })
    }

    fn spoil_placing(&self, kind: ErrorKind, i: usize, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let base = self.position(i);
        let mut wrong = self.placing(i, base);
        let (by, truth) = (wrong.added, wrong.result);
        let (mut skipped, mut recall) = (false, None);
        match kind {
            ErrorKind::ArithmeticSlip => {
                let off = dice.pick(&[-2, -1, 1, 2]);
                wrong.result = if dice.chance(0.5) { sum(truth, (off, 0)) } else { sum(truth, (0, off)) };
                // A sum that comes out mirrored would be a sign error.
                if wrong.result.0 == -truth.0 || wrong.result.1 == -truth.1 {
                    let far = if wrong.result.0 == truth.0 { (0, 3 * off) } else { (3 * off, 0) };
                    wrong.result = sum(truth, far);
                }
            }
            ErrorKind::WrongOperator => wrong.added = (by.1, by.0),
            ErrorKind::MisreadGiven => {
                let more = dice.between(1, 2);
                wrong.quoted = if by.0 != 0 {
                    (by.0 + by.0.signum() * more, by.1)
                } else {
                    (0, by.1 + by.1.signum() * more)
                };
                wrong.added = wrong.quoted;
            }
            ErrorKind::WrongOperand => {
                let earlier: Vec<usize> = (0..i).collect();
                let other = if earlier.is_empty() { return None } else { dice.pick(&earlier) };
                wrong.from = self.objects[other];
                wrong.base = self.position(other);
            }
            ErrorKind::SkippedStep if by.0 != 0 && by.1 != 0 && (i == 0 || dice.chance(0.5)) => {
                wrong.added = if dice.chance(0.5) { (by.0, 0) } else { (0, by.1) };
            }
            ErrorKind::SkippedStep => {
                wrong.base = self.position(i.checked_sub(1)?);
                skipped = true;
            }
            ErrorKind::SignUnit => wrong.added = if by.0 != 0 { (-by.0, by.1) } else { (0, -by.1) },
            ErrorKind::Contradiction if i == 0 => return None,
            ErrorKind::Contradiction => {
                let off = dice.pick(&[-2, -1, 1, 2]);
                wrong.base = if dice.chance(0.5) { sum(base, (off, 0)) } else { sum(base, (0, off)) };
                recall = Some(self.recall(i, wrong.base));
            }
        }
        if kind != ErrorKind::ArithmeticSlip {
            wrong.result = sum(wrong.base, wrong.added);
        }
        if wrong.result == truth {
            return None;
        }
        let mut draft = self.solve(dice, RECALL);
        let error = if skipped { i - 1 } else { i };
        draft.pieces.truncate(error);
        let mut piece = self.place(&wrong);
        piece.recall = recall;
        draft.pieces.push(piece);
        let (rest, answer) = self.walk(i + 1, if propagate { wrong.result } else { truth }, dice, RECALL);
        draft.pieces.extend(rest);
        Some(self.finish(draft, error, answer, propagate))
    }

    /// The last position is right, the direction read off it is not.
    fn spoil_direction(&self, kind: ErrorKind, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let at = self.position(self.steps());
        let mut draft = self.solve(dice, RECALL);
        let (piece, found) = match kind {
            ErrorKind::SignUnit => {
                let mirrored = direction(if at.0 != 0 { (-at.0, at.1) } else { (0, -at.1) });
                (self.conclude(at, mirrored), mirrored)
            }
            ErrorKind::WrongOperand => {
                let other = self.position(self.steps() - 1);
                (self.conclude(other, direction(other)), direction(other))
            }
            ErrorKind::Contradiction => {
                let other = turned(at);
                let mut piece = self.conclude(other, direction(other));
                piece.recall = Some(self.recall(self.steps(), other));
                (piece, direction(other))
            }
            _ => return None,
        };
        if found == direction(at) {
            return None;
        }
        draft.pieces.pop();
        draft.pieces.push(piece);
        let error = draft.pieces.len() - 1;
        Some(self.finish(draft, error, if propagate { found } else { self.answer() }, propagate))
    }

    fn spoil_answer(&self, kind: ErrorKind, dice: &mut Dice) -> Option<Draft> {
        if kind != ErrorKind::Contradiction {
            return None;
        }
        let at = self.position(self.steps());
        let draft = self.solve(dice, RECALL);
        let answer = direction(turned(at));
        let error = draft.pieces.len();
        Some(self.finish(draft, error, answer, false))
    }

    fn finish(&self, draft: Draft, error: usize, answer: &str, propagated: bool) -> Draft {
        let right = answer == self.answer();
        Draft { answer: answer.to_owned(), right, first_error: Some(error), propagated, ..draft }
    }
}
