//! Preference: bias of a judge towards some generators (the OPS benchmark of Tian et al., 2026).
//!
//! Several generators solve the same problems with the same final answers, half of them right, so a judge that looks at
//! the reasoning alone treats them alike. FPR = wrong solutions judged correct, FNR = correct ones judged wrong,
//! BI = FPR − FNR; reported per generator, and |BI| and accuracy averaged over them.
//!
//! - [`build`]: builds such a benchmark from anyone's solutions
//! - [`perplexity_bias`]: bias over perplexity

pub mod build;
mod page;
pub mod perplexity_bias;
mod results;

pub use page::sections;
pub use results::{GeneratorResults, PreferenceResults, measure};
