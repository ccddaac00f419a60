//! Matrix products and attention on CPUs: AMX, AVX-512 and AVX2, chosen at run time.
