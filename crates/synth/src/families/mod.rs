//! The families of word problems and algebra, a file each. Each writes a story and the calculation that solves it;
//! difficulty 1 to 5 sets the number of steps, the size of the numbers, decimals, negatives and distractors.

mod ages;
mod average;
mod expression;
mod geometry;
mod linear;
mod percent;
mod sequence;
mod sharing;
mod shopping;
mod travel;

use super::calc::Calc;
use super::dice::Dice;
use super::kinds::Family;
use super::plan::Plan;
use super::{grid, lookup, unit, words};

/// A problem of this family.
pub(super) fn plan(family: Family, difficulty: u8, dice: &mut Dice) -> Plan {
    let d = i64::from(difficulty);
    match family {
        Family::Shopping => shopping::plan(d, dice),
        Family::Expression => expression::plan(d, dice),
        Family::Travel => travel::plan(d, dice),
        Family::Linear => linear::plan(d, dice),
        Family::Percent => percent::plan(d, dice),
        Family::Average => average::plan(d, dice),
        Family::Geometry => geometry::plan(d, dice),
        Family::Ages => ages::plan(d, dice),
        Family::Sequence => sequence::plan(d, dice),
        Family::Sharing => sharing::plan(d, dice),
        Family::Lookup => lookup::plan(d, dice),
        Family::Grid => grid::plan(d, dice),
    }
}

/// From difficulty 3 on, perhaps a sentence after the first whose number is of no use.
fn distract(sentences: &mut Vec<String>, calc: &mut Calc, who: &str, d: i64, dice: &mut Dice) {
    if d >= 3 && dice.chance(0.5) {
        let (sentence, number) = words::aside(dice, who);
        calc.given(number, unit::BARE);
        let place = dice.between(1, sentences.len() as i64) as usize;
        sentences.insert(place, sentence);
    }
}
