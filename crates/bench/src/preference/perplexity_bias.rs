//! Bias by decile of perplexity, with a linear regression over the deciles.
//!
//! All solutions are sorted by perplexity and cut into ten parts of equal size. BI of each part is regressed on the
//! part's number, 1 (lowest perplexity) to 10. A slope below 0 is the finding of Tian et al. (2026): a critic is lenient
//! towards solutions of low perplexity and harsh towards others. A part without solutions of both kinds has no BI.

use gradus_core::count::counted;
use gradus_core::metrics::bias::{Bias, Judgment, bias};
use gradus_core::metrics::regression::{Fit, fit};
use gradus_plot::scatter::{self, Point, PointSeries, Scatter};
use gradus_plot::table::Table;
use gradus_plot::{Block, Unit};
use serde::{Deserialize, Serialize};

use crate::cells::{columns, count, number};

/// One tenth of the solutions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decile {
    /// 1 has the lowest perplexities.
    pub number: usize,
    /// The lowest perplexity in it.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Its errors.
    pub bias: Bias,
}

/// Bias over perplexity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerplexityBias {
    /// Solutions with a perplexity.
    pub solutions: usize,
    /// Solutions without one; they are in no decile.
    pub without: usize,
    /// From the lowest perplexity on.
    pub deciles: Vec<Decile>,
    /// BI over the decile's number; none with fewer than three deciles that have a BI.
    pub fit: Option<Fit>,
}

/// The analysis; none when fewer than ten solutions have a perplexity.
pub fn perplexity_bias(judged: &[(Option<f64>, Judgment)]) -> Option<PerplexityBias> {
    let mut known: Vec<(f64, Judgment)> =
        judged.iter().filter_map(|(perplexity, judgement)| Some(((*perplexity)?, *judgement))).collect();
    if known.len() < 10 {
        return None;
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let decile = |number: usize| {
        let members = &known[(number - 1) * known.len() / 10..number * known.len() / 10];
        let judgements: Vec<Judgment> = members.iter().map(|(_, judgement)| *judgement).collect();
        let (low, high) = (members[0].0, members[members.len() - 1].0);
        Decile { number, low, high, bias: bias(&judgements) }
    };
    let deciles: Vec<Decile> = (1..=10).map(decile).collect();
    let points = deciles.iter().filter_map(|decile| Some((decile.number as f64, decile.bias.bi?)));
    let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
    Some(PerplexityBias {
        solutions: known.len(),
        without: judged.len() - known.len(),
        fit: fit(&x, &y),
        deciles,
    })
}

impl PerplexityBias {
    /// The scatter plot with its line and band, and the deciles as a table.
    pub fn blocks(&self) -> Vec<Block> {
        let point = |decile: &Decile| {
            Some(Point {
                name: format!("decile {}", decile.number),
                x: decile.number as f64,
                y: decile.bias.bi?,
            })
        };
        let drawn = self.fit.as_ref().map(|fit| {
            let places = (0..=40).map(|step| 1.0 + 9.0 * f64::from(step) / 40.0);
            let bands: Vec<(f64, gradus_core::metrics::regression::Band)> =
                places.map(|x| (x, fit.band(x, 0.95))).collect();
            scatter::Fit {
                line: bands.iter().map(|(x, band)| (*x, band.y)).collect(),
                band: bands.iter().map(|(x, band)| (*x, band.low, band.high)).collect(),
                r: fit.r,
                p: fit.p,
            }
        });
        let without = match self.without {
            0 => String::new(),
            count => {
                format!(" {} without perplexity excluded.", counted(count, "solution"))
            }
        };
        let slope = self.fit.as_ref().map_or(String::new(), |fit| {
            format!(" Slope {:.4} per decile (standard error {:.4}).", fit.slope, fit.stderr)
        });
        let scatter = Scatter {
            title: "Bias over perplexity".to_owned(),
            caption: format!(
                "BI = FPR − FNR of each tenth of {} solutions, by perplexity; above 0 the judge is lenient. Line: least squares with its 95 % confidence band.{slope}{without}",
                self.solutions
            ),
            x_label: "decile of perplexity".to_owned(),
            x_unit: Unit::Count,
            y_label: "BI".to_owned(),
            y_unit: Unit::Number,
            series: vec![PointSeries {
                name: "deciles".to_owned(),
                points: self.deciles.iter().filter_map(point).collect(),
            }],
            fit: drawn,
        };
        vec![Block::Scatter(scatter), Block::Table(self.table())]
    }

    fn table(&self) -> Table {
        let row = |decile: &Decile| {
            vec![
                count(decile.number),
                number(Some(decile.low)),
                number(Some(decile.high)),
                count(decile.bias.correct),
                count(decile.bias.wrong),
                count(decile.bias.undecided),
                number(decile.bias.fpr),
                number(decile.bias.fnr),
                number(decile.bias.bi),
            ]
        };
        Table {
            title: "Deciles of perplexity".to_owned(),
            caption: String::new(),
            columns: [
                columns(Unit::Count, &["decile"]),
                columns(Unit::Number, &["perplexity from", "to"]),
                columns(Unit::Count, &["correct", "wrong", "undecided"]),
                columns(Unit::Share, &["FPR", "FNR"]),
                columns(Unit::Decimal, &["BI"]),
            ]
            .concat(),
            rows: self.deciles.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leniency_towards_the_expected_has_a_negative_slope() {
        // The lower the perplexity the likelier is the verdict 'correct', whatever the truth.
        let judged: Vec<(Option<f64>, Judgment)> = (0..400)
            .map(|index| {
                let lenient = index * 37 % 100 < 100 - index / 4;
                (Some(f64::from(index)), Judgment { correct: index % 2 == 0, judged: Some(lenient) })
            })
            .collect();
        let found = perplexity_bias(&judged).unwrap();
        assert_eq!((found.deciles.len(), found.solutions, found.without), (10, 400, 0));
        let fit = found.fit.unwrap();
        assert!(fit.slope < -0.1 && fit.p < 1e-4, "{fit:?}");
    }

    #[test]
    fn who_has_no_perplexity_is_counted() {
        let one = |perplexity| (perplexity, Judgment { correct: true, judged: Some(true) });
        let mut judged = vec![one(Some(1.0)); 25];
        judged.push(one(None));
        let found = perplexity_bias(&judged).unwrap();
        assert_eq!((found.solutions, found.without, found.fit), (25, 1, None));
        assert_eq!(found.deciles.iter().map(|decile| decile.bias.correct).sum::<usize>(), 25);
        assert_eq!(perplexity_bias(&judged[..9]), None);
    }
}
