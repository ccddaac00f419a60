//! What a number counts or measures, and how the two are written together.

use super::number::Number;

/// A unit. `swap` is the unit it is easily mistaken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    one: &'static str,
    many: &'static str,
    swap: Option<&'static Unit>,
    money: bool,
}

const fn measure(one: &'static str, many: &'static str, swap: Option<&'static Unit>) -> Unit {
    Unit { one, many, swap, money: false }
}

/// A number that counts nothing.
pub(super) const BARE: Unit = measure("", "", None);
const CENTS: Unit = measure("cent", "cents", None);
pub(super) const DOLLARS: Unit = Unit { one: "dollar", many: "dollars", swap: Some(&CENTS), money: true };
const MILES: Unit = measure("mile", "miles", None);
pub(super) const KILOMETERS: Unit = measure("kilometer", "kilometers", Some(&MILES));
pub(super) const MINUTES: Unit = measure("minute", "minutes", None);
pub(super) const HOURS: Unit = measure("hour", "hours", Some(&MINUTES));
const KM_PER_MINUTE: Unit = measure("kilometer per minute", "kilometers per minute", None);
pub(super) const KM_PER_HOUR: Unit =
    measure("kilometer per hour", "kilometers per hour", Some(&KM_PER_MINUTE));
const CENTIMETERS: Unit = measure("centimeter", "centimeters", None);
pub(super) const METERS: Unit = measure("meter", "meters", Some(&CENTIMETERS));
const PLAIN_METERS: Unit = measure("meter", "meters", None);
pub(super) const SQUARE_METERS: Unit = measure("square meter", "square meters", Some(&PLAIN_METERS));
pub(super) const CUBIC_METERS: Unit = measure("cubic meter", "cubic meters", Some(&SQUARE_METERS));
const MONTHS: Unit = measure("month", "months", None);
pub(super) const YEARS: Unit = measure("year", "years", Some(&MONTHS));
const MILLILITERS: Unit = measure("milliliter", "milliliters", None);
pub(super) const LITERS: Unit = measure("liter", "liters", Some(&MILLILITERS));
const GRAMS: Unit = measure("gram", "grams", None);
pub(super) const KILOGRAMS: Unit = measure("kilogram", "kilograms", Some(&GRAMS));
pub(super) const POINTS: Unit = measure("point", "points", None);

impl Unit {
    /// Things that are counted.
    pub(super) const fn noun(one: &'static str, many: &'static str) -> Self {
        measure(one, many, None)
    }

    /// Its name for more than one.
    pub(super) fn plural(self) -> &'static str {
        self.many
    }

    /// The unit it is mistaken for.
    pub(super) fn swapped(self) -> Option<Self> {
        self.swap.copied()
    }

    /// The number alone: money has two decimals or none.
    pub(super) fn digits(self, value: Number) -> String {
        value.with_decimals(if self.money && value.whole().is_none() { 2 } else { 0 })
    }

    /// The unit's name after a number, with the space before it.
    pub(super) fn suffix(self, value: Number) -> String {
        match if value == Number::from(1) { self.one } else { self.many } {
            "" => String::new(),
            name => format!(" {name}"),
        }
    }

    /// Number and unit as they stand in a sentence.
    pub(super) fn amount(self, value: Number) -> String {
        if self.money && value.decimals().is_some() {
            let digits = self.digits(value);
            return match digits.strip_prefix('-') {
                Some(rest) => format!("-${rest}"),
                None => format!("${digits}"),
            };
        }
        format!("{}{}", self.digits(value), self.suffix(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_people_write_them() {
        assert_eq!(DOLLARS.amount(Number::cents(1250)), "$12.50");
        assert_eq!(DOLLARS.amount(Number::from(-3)), "-$3");
        assert_eq!(HOURS.amount(Number::from(1)), "1 hour");
        assert_eq!(HOURS.amount(Number::cents(150)), "1.5 hours");
        assert_eq!(DOLLARS.swapped().unwrap().amount(Number::from(12)), "12 cents");
        assert_eq!(BARE.amount(Number::from(7)), "7");
    }
}
