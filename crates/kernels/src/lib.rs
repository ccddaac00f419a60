//! Matrix products and attention on CPUs: AMX, AVX-512 and AVX2, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod amx;
pub mod cpu;
