//! Do 95 % intervals hold the truth 95 times in 100? On data sets drawn from known distributions.
//!
//! With 400 data sets the standard error of a coverage of 0.95 is 0.011, and percentile intervals of 60 samples hold
//! a little less than they say: 0.90 to 0.985 passes.

use gradus_core::metrics::bootstrap::{Settings, by_group, interval, means, paired};
use gradus_core::metrics::exact::wilson;
use gradus_core::metrics::process::{Located, scores};

const DATA_SETS: usize = 400;
const SAMPLES: usize = 60;

/// SplitMix64: far from the generator that resamples.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn chance(&mut self, share: f64) -> bool {
        self.uniform() < share
    }

    /// Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

fn settings(seed: usize) -> Settings {
    Settings { resamples: 400, seed: seed as u64, ..Settings::default() }
}

/// The share of data sets for which `holds`.
fn share(seed: u64, mut holds: impl FnMut(usize, &mut Random) -> bool) -> f64 {
    let mut random = Random(seed);
    (0..DATA_SETS).filter(|index| holds(*index, &mut random)).count() as f64 / DATA_SETS as f64
}

#[track_caller]
fn about_95(coverage: f64) {
    assert!((0.90..=0.985).contains(&coverage), "{coverage}");
}

#[test]
fn the_mean_of_coin_flips() {
    about_95(share(1, |index, random| {
        let flips: Vec<f64> = (0..SAMPLES).map(|_| f64::from(random.chance(0.7))).collect();
        let found = interval(&flips, mean, &settings(index)).unwrap();
        (found.low..=found.high).contains(&0.7)
    }));
}

#[test]
fn the_mean_of_normal_values() {
    about_95(share(2, |index, random| {
        let values: Vec<f64> = (0..SAMPLES).map(|_| 3.0 + 2.0 * random.normal()).collect();
        let found = means(&[&values], &settings(index)).unwrap()[0];
        (found.low..=found.high).contains(&3.0)
    }));
}

#[test]
fn the_f1_of_processbench() {
    let truth = 2.0 * 0.5 * 0.8 / (0.5 + 0.8);
    about_95(share(3, |index, random| {
        let samples: Vec<Located> = (0..SAMPLES)
            .map(|_| {
                let truth = random.chance(0.6).then_some(1);
                let hit = random.chance(if truth.is_some() { 0.5 } else { 0.8 });
                Located { predicted: Some(if hit { truth } else { Some(9) }), truth }
            })
            .collect();
        let found = interval(&samples, |samples| scores(samples).f1, &settings(index)).unwrap();
        (found.low..=found.high).contains(&truth)
    }));
}

#[test]
fn a_paired_difference_and_its_p_value() {
    let difference = |gap: f64, random: &mut Random, index: usize| {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            // What both share is far larger than what tells them apart.
            let common = 5.0 * random.normal();
            a.push(common + gap + random.normal());
            b.push(common + random.normal());
        }
        paired(&a, &b, mean, &settings(index)).unwrap()
    };
    about_95(share(4, |index, random| {
        let found = difference(0.5, random, index).interval;
        (found.low..=found.high).contains(&0.5)
    }));
    let false_alarms = share(5, |index, random| difference(0.0, random, index).p < 0.05);
    assert!((0.02..=0.10).contains(&false_alarms), "{false_alarms}");
    let found = share(6, |index, random| difference(1.0, random, index).p < 0.05);
    assert!(found > 0.98, "{found}");
}

#[test]
fn solutions_of_one_problem_are_drawn_together() {
    let problems = |random: &mut Random| -> Vec<Vec<f64>> {
        let problem = |random: &mut Random| {
            let common = random.normal();
            (0..4).map(|_| 1.0 + common + 0.5 * random.normal()).collect()
        };
        (0..SAMPLES).map(|_| problem(random)).collect()
    };
    about_95(share(7, |index, random| {
        let found = by_group(&problems(random), mean, &settings(index)).unwrap();
        (found.low..=found.high).contains(&1.0)
    }));
    let alone = share(7, |index, random| {
        let found = interval(&problems(random).concat(), mean, &settings(index)).unwrap();
        (found.low..=found.high).contains(&1.0)
    });
    assert!(alone < 0.85, "an interval that ignores the groups holds {alone}");
}

#[test]
fn wilsons_interval() {
    about_95(share(8, |_, random| {
        let hits = (0..SAMPLES).filter(|_| random.chance(0.9)).count();
        let found = wilson(hits, SAMPLES, 0.95).unwrap();
        (found.low..=found.high).contains(&0.9)
    }));
}
