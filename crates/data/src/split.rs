//! Put every problem into one of several named parts, such as train, dev and test.
//!
//! The part depends on the problem's normalised text and the seed alone: not on the order of the records, nor on
//! which others there are. Copies of a problem, however typeset, land together; near duplicates may not, which is
//! what [`super::dedup`] is for.

use super::dedup::normalize;
use gradus_core::{Fault, Problem};

/// Checks that `shares` has distinct names and that its numbers are none below 0 and add up to 1.
///
/// ```
/// use gradus_data::split::check;
/// assert!(check(&[("train".into(), 0.9), ("test".into(), 0.1)]).is_ok());
/// let fault = check(&[("train".into(), 0.9), ("test".into(), 0.2)]).unwrap_err();
/// assert_eq!(fault.to_string(), "field `shares`: the shares add up to 1.1: expected 1");
/// ```
pub fn check(shares: &[(String, f64)]) -> Result<(), Fault> {
    if shares.is_empty() {
        return Err(Fault::new("shares", "no split is named: expected at least one"));
    }
    for (index, (name, share)) in shares.iter().enumerate() {
        if !(0.0..=1.0).contains(share) {
            return Err(Fault::new(format!("shares.{name}"), format!("is {share}: expected 0 to 1")));
        }
        if shares[..index].iter().any(|(other, _)| other == name) {
            return Err(Fault::new(
                format!("shares.{name}"),
                "is named twice: every split needs its own name",
            ));
        }
    }
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if (sum - 1.0).abs() > 1e-9 {
        // Rounded, so that the sum of 0.9 and 0.2 is not reported with its floating-point error.
        let sum = (sum * 1e9).round() / 1e9;
        return Err(Fault::new("shares", format!("the shares add up to {sum}: expected 1")));
    }
    Ok(())
}

/// The index of the part of `shares` that `problem` belongs to. `shares` must pass [`check`].
///
/// ```
/// use gradus_core::Problem;
/// use gradus_data::split::part_of;
/// let shares = [("train".to_owned(), 0.5), ("test".to_owned(), 0.5)];
/// let problem = |text: &str| Problem { text: text.to_owned(), ..Problem::default() };
/// assert_eq!(part_of(&problem("What is $2$?"), &shares, 7), part_of(&problem("what is 2"), &shares, 7));
/// ```
pub fn part_of(problem: &Problem, shares: &[(String, f64)], seed: u64) -> usize {
    let normal = normalize(&problem.text);
    let text = if normal.is_empty() { &problem.text } else { &normal };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(text.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    // The upper 53 bits are a number in [0, 1) that a double holds exactly.
    let place = (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut end = 0.0;
    for (index, (_, share)) in shares.iter().enumerate() {
        end += share;
        if place < end {
            return index;
        }
    }
    // Rounding left a gap below 1: the last part that takes anything takes it.
    shares.iter().rposition(|(_, share)| *share > 0.0).expect("shares pass `split::check`")
}
