//! Which instruction set the kernels use, decided once per process.
//!
//! The best level that the CPU and the operating system offer is taken. The environment variable
//! `GRADUS_CPU=amx|avx512|avx2|portable` (ARM: `neon|portable`) asks for a lower one, to compare paths or to reproduce
//! the numbers of another machine. A name that does not exist and a level that this machine lacks are
//! errors, never silently something else.
//!
//! ```
//! use gradus_kernels::cpu::Level;
//! assert!(Level::current() >= Level::Portable);
//! ```

use std::sync::OnceLock;

/// An instruction set that every kernel is written for; each level includes those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust: any machine.
    Portable,
    /// NEON, which every 64-bit ARM processor has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AMX tiles with bf16, together with AVX-512 BF16. Linux only.
    Amx,
}

impl Level {
    /// All levels of this architecture, lowest first.
    pub(crate) const ALL: &[Level] = &[
        Level::Portable,
        #[cfg(target_arch = "aarch64")]
        Level::Neon,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512,
        #[cfg(target_arch = "x86_64")]
        Level::Amx,
    ];

    /// The level that this process uses.
    ///
    /// # Panics
    /// When `GRADUS_CPU` holds the name of no level, or of one that this machine lacks.
    pub fn current() -> Level {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| Level::from_environment().unwrap_or_else(|error| panic!("{error}")))
    }

    /// What [`Level::current`] will be, or a sentence that says why `GRADUS_CPU` cannot be honored.
    pub(crate) fn from_environment() -> Result<Level, String> {
        let detected = Level::detected();
        let Some(value) = std::env::var_os("GRADUS_CPU").filter(|value| !value.is_empty()) else {
            return Ok(detected);
        };
        let asked = Level::ALL.iter().copied().find(|level| value == level.name()).ok_or_else(|| {
            let value = value.to_string_lossy();
            let known: Vec<&str> = Level::ALL.iter().rev().map(|level| level.name()).collect();
            format!("GRADUS_CPU is '{value}'; expected one of {}", known.join(", "))
        })?;
        if asked > detected {
            let (asked, best) = (asked.name(), detected.name());
            return Err(format!("GRADUS_CPU asks for {asked}, but this machine offers at most {best}"));
        }
        Ok(asked)
    }

    /// The best level of this machine, whatever the environment says.
    pub(crate) fn detected() -> Level {
        static DETECTED: OnceLock<Level> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// The levels that this machine can run, lowest first.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Level> {
        Level::ALL.iter().copied().filter(|level| *level <= Level::detected())
    }

    /// The name used in `GRADUS_CPU`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Amx => "amx",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let amx = avx512 && crate::amx::usable();
    match (avx2, avx512, amx) {
        (_, _, true) => Level::Amx,
        (_, true, _) => Level::Avx512,
        (true, _, _) => Level::Avx2,
        _ => Level::Portable,
    }
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Level {
    Level::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Level {
    Level::Portable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_never_exceeds_the_machine() {
        assert!(Level::current() <= Level::detected());
        assert_eq!(Level::available().last(), Some(Level::detected()));
        assert_eq!(Level::available().next(), Some(Level::Portable));
    }
}
