//! The closed sets a synthetic world is made of: problem families, solution styles, error kinds.

use serde::{Deserialize, Serialize};

/// An enum of named kinds: the serde name and `name()` are the same word.
macro_rules! kinds {
    ($(#[$doc:meta])* $kind:ident { $($variant:ident = $name:literal, $about:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $kind {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl $kind {
            /// Every kind there is.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in configs and metadata.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    /// A kind of problem (question shift).
    Family {
        Shopping = "shopping", "Totals, coupons and change in a shop.";
        Expression = "expression", "A chain of operations on numbers, as a formula or as instructions.";
        Travel = "travel", "Speed, distance and time over one or more legs of a trip.";
        Linear = "linear", "One linear equation in one unknown.";
        Percent = "percent", "Discounts, taxes and other percentages.";
        Average = "average", "Means, weighted means and missing values.";
        Geometry = "geometry", "Perimeters, areas and volumes of rectangular things.";
        Ages = "ages", "Ages related by sums and ratios.";
        Sequence = "sequence", "Terms and sums of arithmetic sequences.";
        Sharing = "sharing", "An amount shared out in a given ratio.";
        Lookup = "lookup", "A question that needs several facts of the context, one after the other.";
        Grid = "grid", "Where one object is relative to another, from relations between neighbours.";
    }
}

kinds! {
    /// A way to write a solution (step shift).
    Style {
        Equations = "equations", "A line per step: the quantity and its calculation.";
        Prose = "prose", "Sentences, with the calculation in words.";
        Enumeration = "enumeration", "Numbered steps that say what is found and how.";
    }
}

kinds! {
    /// What is wrong with the first wrong step.
    ErrorKind {
        ArithmeticSlip = "arithmetic_slip", "The right operation on the right values with a wrong result.";
        WrongOperator = "wrong_operator", "Another operation, relation or axis than the problem asks for.";
        MisreadGiven = "misread_given", "Something is copied from the problem that the problem does not say.";
        WrongOperand = "wrong_operand", "A value or entity that is known, but not the one that belongs here.";
        SkippedStep = "skipped_step", "A value is used as if a needed operation had already been done.";
        SignUnit = "sign_unit", "A sign, direction or unit is flipped.";
        Contradiction = "contradiction", "Says something else than an earlier step found.";
    }
}

impl Family {
    /// Whether solutions of this family can have this error. Finding facts involves no arithmetic.
    pub(crate) fn admits(self, error: ErrorKind) -> bool {
        !(self == Self::Lookup && error == ErrorKind::ArithmeticSlip)
    }
}
