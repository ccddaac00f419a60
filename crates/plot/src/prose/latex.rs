//! One formula: LaTeX to MathML, or nothing where it cannot be converted safely.

use std::panic::catch_unwind;
use std::sync::OnceLock;

use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};

use super::mathml::cleaned;
use super::rewrite::{MACROS, nests_deeper, rewritten};

/// Longer formulas are shown as source.
const LONGEST: usize = 4096;
/// Deeper ones, too.
const DEEPEST: usize = 40;

fn converter() -> &'static LatexToMathML {
    static CONVERTER: OnceLock<LatexToMathML> = OnceLock::new();
    CONVERTER.get_or_init(|| {
        let macros =
            MACROS.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned())).collect();
        let config = MathCoreConfig { macros, ..MathCoreConfig::default() };
        LatexToMathML::new(config).expect("the macros are LaTeX")
    })
}

/// The formula as a `<math>` element of known elements and attributes.
pub(super) fn mathml(latex: &str, display: bool) -> Option<String> {
    if latex.len() > LONGEST || nests_deeper(latex, DEEPEST) {
        return None;
    }
    let display = if display { MathDisplay::Block } else { MathDisplay::Inline };
    let latex = rewritten(latex);
    // A text of strangers must not end the program, whatever the converter makes of it.
    let converted = catch_unwind(|| converter().convert_with_local_state(&latex, display));
    cleaned(&converted.ok()?.ok()?.mathml)
}
