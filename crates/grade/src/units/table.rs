//! The units that are known: their names, their size in base units, and their dimension.
//!
//! A name may stand in several rows: a ton is short or metric, a pound is mass or money, a kilobyte has 1,000 or 1,024
//! bytes. Each row is then a reading of it.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What a unit measures is a product of powers of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Meter.
    Length,
    /// Gram.
    Mass,
    /// Second.
    Time,
    /// Month: of no fixed number of days.
    Month,
    Dollar,
    Euro,
    Sterling,
    Yen,
    Yuan,
    Rupee,
    Ruble,
    /// Degree; radians are no rational multiple of it.
    Angle,
    Radian,
    /// Kelvin.
    Temperature,
    /// Bit.
    Data,
    /// Ampere.
    Current,
    /// Mole.
    Amount,
}

/// The number of base dimensions.
pub(super) const BASES: usize = 17;

/// A unit of the table.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) names: &'static [&'static str],
    /// How many base units it is.
    pub(super) ratio: (i64, i64),
    pub(super) powers: &'static [(Base, i8)],
    /// What is added before the ratio applies: 0 °C is 273.15 K.
    pub(super) offset: (i64, i64),
}

const fn unit(names: &'static [&'static str], ratio: (i64, i64), powers: &'static [(Base, i8)]) -> Unit {
    Unit { names, ratio, powers, offset: (0, 1) }
}

const fn scale(names: &'static [&'static str], ratio: (i64, i64), offset: (i64, i64)) -> Unit {
    Unit { names, ratio, powers: &[(Base::Temperature, 1)], offset }
}

const LENGTH: &[(Base, i8)] = &[(Base::Length, 1)];
const AREA: &[(Base, i8)] = &[(Base::Length, 2)];
const VOLUME: &[(Base, i8)] = &[(Base::Length, 3)];
const SPEED: &[(Base, i8)] = &[(Base::Length, 1), (Base::Time, -1)];
const MASS: &[(Base, i8)] = &[(Base::Mass, 1)];
const TIME: &[(Base, i8)] = &[(Base::Time, 1)];
const MONTHS: &[(Base, i8)] = &[(Base::Month, 1)];
const DOLLARS: &[(Base, i8)] = &[(Base::Dollar, 1)];
const EUROS: &[(Base, i8)] = &[(Base::Euro, 1)];
const STERLING: &[(Base, i8)] = &[(Base::Sterling, 1)];
const DATA: &[(Base, i8)] = &[(Base::Data, 1)];
const FREQUENCY: &[(Base, i8)] = &[(Base::Time, -1)];
const FORCE: &[(Base, i8)] = &[(Base::Mass, 1), (Base::Length, 1), (Base::Time, -2)];
const ENERGY: &[(Base, i8)] = &[(Base::Mass, 1), (Base::Length, 2), (Base::Time, -2)];
const POWER: &[(Base, i8)] = &[(Base::Mass, 1), (Base::Length, 2), (Base::Time, -3)];
const PRESSURE: &[(Base, i8)] = &[(Base::Mass, 1), (Base::Length, -1), (Base::Time, -2)];
const VOLTAGE: &[(Base, i8)] = &[(Base::Mass, 1), (Base::Length, 2), (Base::Time, -3), (Base::Current, -1)];
const RESISTANCE: &[(Base, i8)] =
    &[(Base::Mass, 1), (Base::Length, 2), (Base::Time, -3), (Base::Current, -2)];
const CHARGE: &[(Base, i8)] = &[(Base::Current, 1), (Base::Time, 1)];

const UNITS: &[Unit] = &[
    // Length.
    unit(&["nm", "nanometer", "nanometers"], (1, 1_000_000_000), LENGTH),
    unit(&["μm", "um", "micrometer", "micrometers", "micron", "microns"], (1, 1_000_000), LENGTH),
    unit(&["mm", "millimeter", "millimeters", "millimetre", "millimetres"], (1, 1_000), LENGTH),
    unit(&["cm", "centimeter", "centimeters", "centimetre", "centimetres"], (1, 100), LENGTH),
    unit(&["dm", "decimeter", "decimeters", "decimetre", "decimetres"], (1, 10), LENGTH),
    unit(&["m", "meter", "meters", "metre", "metres"], (1, 1), LENGTH),
    unit(&["km", "kms", "kilometer", "kilometers", "kilometre", "kilometres"], (1_000, 1), LENGTH),
    unit(&["in", "inch", "inches"], (127, 5_000), LENGTH),
    unit(&["ft", "foot", "feet"], (381, 1_250), LENGTH),
    unit(&["yd", "yds", "yard", "yards"], (1_143, 1_250), LENGTH),
    unit(&["mi", "mile", "miles"], (201_168, 125), LENGTH),
    unit(&["nautical mile", "nautical miles", "nmi"], (1_852, 1), LENGTH),
    unit(&["light year", "light years"], (9_460_730_472_580_800, 1), LENGTH),
    // Area and volume; a liter is a cubic decimeter.
    unit(&["acre", "acres"], (316_160_658, 78_125), AREA),
    unit(&["hectare", "hectares", "ha"], (10_000, 1), AREA),
    unit(&["ml", "mls", "milliliter", "milliliters", "millilitre", "millilitres"], (1, 1_000_000), VOLUME),
    unit(&["cc"], (1, 1_000_000), VOLUME),
    unit(&["cl", "centiliter", "centiliters", "centilitre", "centilitres"], (1, 100_000), VOLUME),
    unit(&["dl", "deciliter", "deciliters", "decilitre", "decilitres"], (1, 10_000), VOLUME),
    unit(&["l", "liter", "liters", "litre", "litres"], (1, 1_000), VOLUME),
    unit(&["kl", "kiloliter", "kiloliters", "kilolitre", "kilolitres"], (1, 1), VOLUME),
    unit(&["gallon", "gallons", "gal", "gals"], (473_176_473, 125_000_000_000), VOLUME),
    unit(&["quart", "quarts", "qt", "qts"], (473_176_473, 500_000_000_000), VOLUME),
    unit(&["pint", "pints", "pt", "pts"], (473_176_473, 1_000_000_000_000), VOLUME),
    unit(&["cup", "cups"], (473_176_473, 2_000_000_000_000), VOLUME),
    unit(&["fluid ounce", "fluid ounces", "fl oz"], (473_176_473, 16_000_000_000_000), VOLUME),
    unit(&["tablespoon", "tablespoons", "tbsp"], (473_176_473, 32_000_000_000_000), VOLUME),
    unit(&["teaspoon", "teaspoons", "tsp"], (473_176_473, 96_000_000_000_000), VOLUME),
    // Mass. An ounce may be a fluid one.
    unit(&["μg", "ug", "mcg", "microgram", "micrograms"], (1, 1_000_000), MASS),
    unit(&["mg", "milligram", "milligrams"], (1, 1_000), MASS),
    unit(&["g", "gram", "grams", "gm", "gms"], (1, 1), MASS),
    unit(&["kg", "kgs", "kilogram", "kilograms", "kilo", "kilos"], (1_000, 1), MASS),
    unit(&["oz", "ounce", "ounces"], (45_359_237, 1_600_000), MASS),
    unit(&["oz", "ounce", "ounces"], (473_176_473, 16_000_000_000_000), VOLUME),
    unit(&["lb", "lbs", "pound", "pounds"], (45_359_237, 100_000), MASS),
    unit(&["pound", "pounds"], (1, 1), STERLING),
    unit(&["ton", "tons"], (45_359_237, 50), MASS),
    unit(&["ton", "tons", "tonne", "tonnes", "metric ton", "metric tons"], (1_000_000, 1), MASS),
    // Time. Months and years have no fixed number of days.
    unit(&["ns", "nanosecond", "nanoseconds"], (1, 1_000_000_000), TIME),
    unit(&["μs", "us", "microsecond", "microseconds"], (1, 1_000_000), TIME),
    unit(&["ms", "millisecond", "milliseconds"], (1, 1_000), TIME),
    unit(&["s", "sec", "secs", "second", "seconds"], (1, 1), TIME),
    unit(&["min", "mins", "minute", "minutes"], (60, 1), TIME),
    unit(&["h", "hr", "hrs", "hour", "hours"], (3_600, 1), TIME),
    unit(&["day", "days"], (86_400, 1), TIME),
    unit(&["week", "weeks", "wk", "wks"], (604_800, 1), TIME),
    unit(&["fortnight", "fortnights"], (1_209_600, 1), TIME),
    unit(&["month", "months"], (1, 1), MONTHS),
    unit(&["year", "years", "yr", "yrs"], (12, 1), MONTHS),
    unit(&["decade", "decades"], (120, 1), MONTHS),
    unit(&["century", "centuries"], (1_200, 1), MONTHS),
    unit(&["millennium", "millennia"], (12_000, 1), MONTHS),
    // Money, by currency.
    unit(&["cent", "cents", "¢", "penny", "pennies"], (1, 100), DOLLARS),
    unit(&["nickel", "nickels"], (1, 20), DOLLARS),
    unit(&["dime", "dimes"], (1, 10), DOLLARS),
    unit(&["dollar", "dollars", "usd", "us dollar", "us dollars", "buck", "bucks", "$"], (1, 1), DOLLARS),
    unit(&["euro", "euros", "eur", "€"], (1, 1), EUROS),
    unit(&["cent", "cents", "euro cent", "euro cents"], (1, 100), EUROS),
    unit(&["gbp", "£", "quid"], (1, 1), STERLING),
    unit(&["pence", "penny", "pennies"], (1, 100), STERLING),
    unit(&["yen", "jpy", "¥"], (1, 1), &[(Base::Yen, 1)]),
    unit(&["yuan", "rmb", "cny", "¥"], (1, 1), &[(Base::Yuan, 1)]),
    unit(&["rupee", "rupees", "rs", "inr", "₹"], (1, 1), &[(Base::Rupee, 1)]),
    unit(&["paisa", "paise"], (1, 100), &[(Base::Rupee, 1)]),
    unit(&["ruble", "rubles", "rouble", "roubles"], (1, 1), &[(Base::Ruble, 1)]),
    // Angles and temperatures.
    unit(&["degree", "degrees", "deg"], (1, 1), &[(Base::Angle, 1)]),
    unit(&["radian", "radians", "rad", "rads"], (1, 1), &[(Base::Radian, 1)]),
    scale(&["celsius", "c", "degree celsius", "degrees celsius", "degrees c"], (1, 1), (27_315, 100)),
    scale(&["degree", "degrees", "deg"], (1, 1), (27_315, 100)),
    scale(
        &["fahrenheit", "f", "degree fahrenheit", "degrees fahrenheit", "degrees f"],
        (5, 9),
        (45_967, 100),
    ),
    scale(&["degree", "degrees", "deg"], (5, 9), (45_967, 100)),
    scale(&["kelvin", "kelvins"], (1, 1), (0, 1)),
    // Speed.
    unit(&["mph"], (1_397, 3_125), SPEED),
    unit(&["kph", "kmh", "kmph"], (5, 18), SPEED),
    unit(&["knot", "knots"], (463, 900), SPEED),
    // Data: a kilobyte has 1,000 bytes or 1,024.
    unit(&["bit", "bits"], (1, 1), DATA),
    unit(&["byte", "bytes"], (8, 1), DATA),
    unit(&["kilobit", "kilobits"], (1_000, 1), DATA),
    unit(&["megabit", "megabits"], (1_000_000, 1), DATA),
    unit(&["gigabit", "gigabits"], (1_000_000_000, 1), DATA),
    unit(&["kb", "kilobyte", "kilobytes"], (8_000, 1), DATA),
    unit(&["kb", "kilobyte", "kilobytes", "kib"], (8 << 10, 1), DATA),
    unit(&["mb", "megabyte", "megabytes"], (8_000_000, 1), DATA),
    unit(&["mb", "megabyte", "megabytes", "mib"], (8 << 20, 1), DATA),
    unit(&["gb", "gigabyte", "gigabytes"], (8_000_000_000, 1), DATA),
    unit(&["gb", "gigabyte", "gigabytes", "gib"], (8 << 30, 1), DATA),
    unit(&["tb", "terabyte", "terabytes"], (8_000_000_000_000, 1), DATA),
    unit(&["tb", "terabyte", "terabytes", "tib"], (8 << 40, 1), DATA),
    // Physics.
    unit(&["millihertz"], (1, 1_000), FREQUENCY),
    unit(&["hz", "hertz"], (1, 1), FREQUENCY),
    unit(&["khz", "kilohertz"], (1_000, 1), FREQUENCY),
    unit(&["mhz", "megahertz"], (1_000_000, 1), FREQUENCY),
    unit(&["newton", "newtons"], (1_000, 1), FORCE),
    unit(&["kn", "kilonewton", "kilonewtons"], (1_000_000, 1), FORCE),
    unit(&["joule", "joules"], (1_000, 1), ENERGY),
    unit(&["millijoule", "millijoules"], (1, 1), ENERGY),
    unit(&["kj", "kilojoule", "kilojoules"], (1_000_000, 1), ENERGY),
    unit(&["megajoule", "megajoules"], (1_000_000_000, 1), ENERGY),
    unit(&["cal", "calorie", "calories"], (4_184, 1), ENERGY),
    unit(&["kcal", "kilocalorie", "kilocalories"], (4_184_000, 1), ENERGY),
    unit(&["kwh", "kilowatt hour", "kilowatt hours"], (3_600_000_000, 1), ENERGY),
    unit(&["watt", "watts"], (1_000, 1), POWER),
    unit(&["milliwatt", "milliwatts"], (1, 1), POWER),
    unit(&["kw", "kilowatt", "kilowatts"], (1_000_000, 1), POWER),
    unit(&["megawatt", "megawatts"], (1_000_000_000, 1), POWER),
    unit(&["pascal", "pascals", "pa"], (1_000, 1), PRESSURE),
    unit(&["kpa", "kilopascal", "kilopascals"], (1_000_000, 1), PRESSURE),
    unit(&["atm", "atmosphere", "atmospheres"], (101_325_000, 1), PRESSURE),
    unit(&["amp", "amps", "ampere", "amperes"], (1, 1), &[(Base::Current, 1)]),
    unit(&["millivolt", "millivolts"], (1, 1), VOLTAGE),
    unit(&["volt", "volts"], (1_000, 1), VOLTAGE),
    unit(&["megavolt", "megavolts"], (1_000_000_000, 1), VOLTAGE),
    unit(&["ohm", "ohms"], (1_000, 1), RESISTANCE),
    unit(&["coulomb", "coulombs"], (1, 1), CHARGE),
    unit(&["mol", "mole", "moles"], (1, 1), &[(Base::Amount, 1)]),
];

/// The rows of every name, in their order.
static ROWS: LazyLock<HashMap<&'static str, Vec<&'static Unit>>> = LazyLock::new(|| {
    let mut rows: HashMap<&'static str, Vec<&'static Unit>> = HashMap::new();
    for unit in UNITS {
        for name in unit.names {
            rows.entry(name).or_default().push(unit);
        }
    }
    rows
});

/// All readings of a name; empty for a word that is no unit.
pub(super) fn readings(name: &str) -> &'static [&'static Unit] {
    ROWS.get(name).map_or(&[], Vec::as_slice)
}
