//! Questions that need several facts of the context, one after the other (multi-hop question answering).
//!
//! ```text
//! The mentor of Ana is Boris. Boris works at the library. Dana works at the museum. ...
//! Where does the mentor of Ana work?
//! ```
//! Beside the chain of facts that leads to the answer there is a decoy chain of the same relations, and facts that
//! lead from the one into the other. Every error takes such a turn, so a wrong answer can be followed to its end.

use super::dice::Dice;
use super::kinds::ErrorKind;
use super::plan::{Draft, Piece, Plan, PlanBody, RECALL, Recall};
use super::words::{NAMES, capital};
use gradus_core::Domain;

/// What one fact says about its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// A person's mentor, dentist and so on.
    Person(&'static str),
    Lives,
    Works,
    Stands,
    Lies,
}

/// Relations between people, none of them symmetric: read backwards they are wrong.
const PEOPLE: &[&str] =
    &["mentor", "manager", "dentist", "landlord", "coach", "tutor", "lawyer", "accountant"];
const TOWNS: &[&str] = &["Marlow", "Tessen", "Dunmere", "Orlin", "Pelham", "Vasta", "Rookby", "Lindau"];
const PLACES: &[&str] = &[
    "the library",
    "the museum",
    "the bakery",
    "the harbor office",
    "the cinema",
    "the town hall",
    "the zoo",
];
const REGIONS: &[&str] = &["Orvale", "Northmark", "Caldera", "Westerly", "Sunfold", "Harrow"];

impl Relation {
    fn noun(self) -> &'static str {
        match self {
            Self::Person(noun) => noun,
            Self::Lives => "home town",
            Self::Works => "workplace",
            Self::Stands => "town",
            Self::Lies => "region",
        }
    }

    fn objects(self) -> &'static [&'static str] {
        match self {
            Self::Person(_) => NAMES,
            Self::Lives | Self::Stands => TOWNS,
            Self::Works => PLACES,
            Self::Lies => REGIONS,
        }
    }

    fn of_person(self) -> bool {
        matches!(self, Self::Person(_) | Self::Lives | Self::Works)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fact {
    subject: &'static str,
    relation: Relation,
    object: &'static str,
}

impl Fact {
    fn clause(self) -> String {
        let Self { subject, relation, object } = self;
        match relation {
            Relation::Person(noun) => format!("the {noun} of {subject} is {object}"),
            Relation::Lives => format!("{subject} lives in {object}"),
            Relation::Works => format!("{subject} works at {object}"),
            Relation::Stands => format!("{subject} is in {object}"),
            Relation::Lies => format!("{subject} lies in the {object} region"),
        }
    }

    fn sentence(self, dice: &mut Dice) -> String {
        let Self { subject, relation, object } = self;
        let text = match relation {
            Relation::Person(noun) if dice.chance(0.5) => format!("{object} is the {noun} of {subject}"),
            Relation::Lives if dice.chance(0.3) => format!("the home town of {subject} is {object}"),
            Relation::Works if dice.chance(0.3) => format!("{object} is where {subject} works"),
            _ => self.clause(),
        };
        capital(&text) + "."
    }
}

/// Two parallel chains over the same relations, and the facts of the context.
pub(super) struct Hops {
    relations: Vec<Relation>,
    /// The entities of the true chain: one more than there are relations.
    chain: Vec<&'static str>,
    decoys: Vec<&'static str>,
    facts: Vec<Fact>,
}

pub(super) fn plan(d: i64, dice: &mut Dice) -> Plan {
    let tail: &[Relation] = match (d, dice.between(0, 4)) {
        (1, 0) | (_, 1) => &[Relation::Lives],
        (1, 2) => &[Relation::Works],
        (1, _) | (_, 0) => &[],
        (_, 2) => &[Relation::Lives, Relation::Lies],
        (3.., 3) => &[Relation::Works, Relation::Stands, Relation::Lies],
        _ => &[Relation::Works, Relation::Stands],
    };
    let people = (d as usize + 1).saturating_sub(tail.len()).max(1);
    let mut relations: Vec<_> = dice.sample(PEOPLE, people).into_iter().map(Relation::Person).collect();
    relations.extend(tail);

    let mut names = dice.sample(NAMES, 2 * people + 2);
    let (mut chain, mut decoys) = (vec![], vec![]);
    for pair in names.drain(..).as_slice().chunks(2) {
        chain.push(pair[0]);
        decoys.push(pair[1]);
    }
    for relation in tail {
        let pair = dice.sample(relation.objects(), 2);
        chain.push(pair[0]);
        decoys.push(pair[1]);
    }
    let mut hops = Hops { relations, chain, decoys, facts: vec![] };
    hops.gather(d, dice);
    let mut order = hops.facts.clone();
    dice.shuffle(&mut order);
    let context: Vec<_> = order.into_iter().map(|fact| fact.sentence(dice)).collect();
    let text = format!("{} {}", context.join(" "), hops.question());
    Plan { context, text, domain: Domain::Qa, body: PlanBody::Hops(hops) }
}

impl Hops {
    fn hop(&self, i: usize) -> Fact {
        Fact { subject: self.chain[i], relation: self.relations[i], object: self.chain[i + 1] }
    }

    fn decoy(&self, i: usize) -> Fact {
        Fact { subject: self.decoys[i], relation: self.relations[i], object: self.decoys[i + 1] }
    }

    /// Hop `i` straight from the entity before it, as if hop `i - 1` were done.
    fn shortcut(&self, i: usize) -> Option<Fact> {
        let subject = *self.chain.get(i.checked_sub(1)?)?;
        let fits = self.relations[i].of_person();
        fits.then_some(Fact { subject, relation: self.relations[i], object: self.decoys[i + 1] })
    }

    /// Another relation of the right person.
    fn sideways(&self, i: usize, noun: &'static str) -> Option<Fact> {
        let person = matches!(self.relations[i], Relation::Person(_));
        person.then_some(Fact {
            subject: self.chain[i],
            relation: Relation::Person(noun),
            object: self.decoys[i + 1],
        })
    }

    /// The right relation, backwards.
    fn backwards(&self, i: usize) -> Option<Fact> {
        let person = matches!(self.relations[i], Relation::Person(_));
        person.then_some(Fact {
            subject: self.decoys[i + 1],
            relation: self.relations[i],
            object: self.chain[i],
        })
    }

    /// Fills the context: both chains, then turns between them, the more the harder.
    fn gather(&mut self, d: i64, dice: &mut Dice) {
        let hops = self.relations.len();
        let unused: Vec<_> =
            PEOPLE.iter().copied().filter(|noun| !self.relations.contains(&Relation::Person(noun))).collect();
        let mut turns: Vec<Fact> = (0..hops).filter_map(|i| self.shortcut(i)).collect();
        turns.extend((0..hops).filter_map(|i| self.backwards(i)));
        for i in 0..hops {
            if !unused.is_empty() {
                turns.extend(self.sideways(i, dice.pick(&unused)));
            }
        }
        dice.shuffle(&mut turns);
        let mut facts: Vec<_> = (0..hops).flat_map(|i| [self.hop(i), self.decoy(i)]).collect();
        let wanted = facts.len() + 1 + d as usize;
        for turn in turns {
            // A person has one mentor, or the question would have two answers.
            let known = |fact: &Fact| fact.subject == turn.subject && fact.relation == turn.relation;
            if facts.len() < wanted && !facts.iter().any(known) {
                facts.push(turn);
            }
        }
        self.facts = facts;
    }

    fn question(&self) -> String {
        let people: Vec<_> = self.relations.iter().filter(|r| matches!(r, Relation::Person(_))).collect();
        let who =
            people.iter().fold(self.chain[0].to_owned(), |inner, r| format!("the {} of {inner}", r.noun()));
        match &self.relations[people.len()..] {
            [] => format!("Who is {who}?"),
            [Relation::Lives] => format!("In which town does {who} live?"),
            [Relation::Lives, ..] => format!("In which region is the home town of {who}?"),
            [Relation::Works] => format!("Where does {who} work?"),
            [_, Relation::Stands] => format!("In which town is the workplace of {who}?"),
            _ => format!("In which region is the town where {who} works?"),
        }
    }

    fn what(&self, i: usize) -> String {
        format!("the {} in question", self.relations[i].noun())
    }

    /// The step that reads `fact` and takes `found` from it.
    fn piece(&self, i: usize, fact: Fact, found: &str) -> Piece {
        let (what, clause) = (self.what(i), fact.clause());
        Piece {
            claim: format!("{what} is {found}"),
            formula: format!("{found}, since {} of {} = {}", fact.relation.noun(), fact.subject, fact.object),
            listed: format!("since {clause}, it is {found}"),
            reason: clause.clone(),
            words: clause,
            what,
            recall: None,
        }
    }

    fn recall(&self, i: usize, entity: &str) -> Recall {
        let what = self.what(i);
        Recall { claim: format!("{what} is {entity}"), value: entity.to_owned(), what }
    }

    pub(super) fn solve(&self, dice: &mut Dice, recall: f64) -> Draft {
        let hops = self.relations.len();
        let mut pieces = Vec::new();
        for i in 0..hops {
            let mut piece = self.piece(i, self.hop(i), self.chain[i + 1]);
            if i > 0 && dice.chance(recall) {
                piece.recall = Some(self.recall(i - 1, self.chain[i]));
            }
            pieces.push(piece);
        }
        let answer = self.chain[hops].to_owned();
        Draft { pieces, answer, right: true, first_error: None, propagated: false }
    }

    pub(super) fn spoil(&self, kind: ErrorKind, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let hops = self.relations.len();
        let mut places: Vec<usize> = (0..=hops).collect();
        dice.shuffle(&mut places);
        places.into_iter().find_map(|i| {
            if i == hops { self.spoil_answer(kind, dice) } else { self.turn(kind, i, propagate, dice) }
        })
    }

    fn spoil_answer(&self, kind: ErrorKind, dice: &mut Dice) -> Option<Draft> {
        let hops = self.relations.len();
        let mut draft = self.solve(dice, RECALL);
        draft.answer = match kind {
            ErrorKind::Contradiction => self.decoys[hops].to_owned(),
            ErrorKind::SkippedStep => {
                draft.pieces.pop();
                self.chain[hops - 1].to_owned()
            }
            _ => return None,
        };
        draft.first_error = Some(draft.pieces.len());
        draft.right = false;
        Some(draft)
    }

    /// Leaves the true chain at hop `i`.
    fn turn(&self, kind: ErrorKind, i: usize, propagate: bool, dice: &mut Dice) -> Option<Draft> {
        let hops = self.relations.len();
        let stated = |fact: &Fact| self.facts.contains(fact);
        let (fact, found) = match kind {
            ErrorKind::ArithmeticSlip => return None,
            ErrorKind::MisreadGiven => {
                (Fact { object: self.decoys[i + 1], ..self.hop(i) }, self.decoys[i + 1])
            }
            ErrorKind::WrongOperand => (self.decoy(i), self.decoys[i + 1]),
            ErrorKind::Contradiction if i == 0 => return None,
            ErrorKind::Contradiction => (self.decoy(i), self.decoys[i + 1]),
            ErrorKind::SkippedStep => (self.shortcut(i).filter(stated)?, self.decoys[i + 1]),
            ErrorKind::WrongOperator => {
                let other = |noun: &&&'static str| Relation::Person(noun) != self.relations[i];
                let fact =
                    PEOPLE.iter().filter(other).filter_map(|noun| self.sideways(i, noun)).find(stated)?;
                (fact, self.decoys[i + 1])
            }
            ErrorKind::SignUnit => (self.backwards(i).filter(stated)?, self.decoys[i + 1]),
        };
        let mut draft = self.solve(dice, RECALL);
        let mut piece = self.piece(i, fact, found);
        piece.recall = match kind {
            ErrorKind::Contradiction => Some(self.recall(i - 1, self.decoys[i])),
            // Recalling the right entity and then reading of another would be two errors in one.
            ErrorKind::WrongOperand | ErrorKind::SkippedStep => None,
            _ => draft.pieces[i].recall.take(),
        };
        draft.pieces[i] = piece;
        if propagate {
            for later in i + 1..hops {
                let recalled = draft.pieces[later].recall.is_some();
                draft.pieces[later] = self.piece(later, self.decoy(later), self.decoys[later + 1]);
                draft.pieces[later].recall = recalled.then(|| self.recall(later - 1, self.decoys[later]));
            }
            draft.answer = self.decoys[hops].to_owned();
            draft.right = false;
        }
        draft.first_error = Some(i);
        if kind == ErrorKind::SkippedStep {
            draft.pieces.remove(i - 1);
            draft.first_error = Some(i - 1);
        }
        draft.propagated = propagate;
        Some(draft)
    }
}
