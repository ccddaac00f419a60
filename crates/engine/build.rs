//! Compiles the CUDA kernels of `src/cuda/kernels` to PTX, when the feature `cuda` is on; nothing otherwise.
//!
//! `NVCC` names the compiler, else `CUDA_HOME` or `CUDA_PATH` its folder, else the search path. `CUDA_COMPUTE_CAP` is the
//! oldest GPU that must run them (80: Ampere); the driver compiles the PTX for the GPU it finds, newer ones included.

use std::path::{Path, PathBuf};
use std::process::Command;

const KERNELS: [&str; 8] =
    ["attention", "flash", "logprobs", "norm", "optimizer", "pointwise", "sample", "vector"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let folder = Path::new("src/cuda/kernels");
    println!("cargo:rerun-if-changed={}", folder.display());
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let capability = std::env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "80".to_owned());
    check(&capability);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in KERNELS {
        let status = Command::new(compiler())
            .args(["-ptx", "-O3", "-arch", &format!("compute_{capability}"), "-o"])
            .arg(out.join(format!("{name}.ptx")))
            .arg(folder.join(format!("{name}.cu")))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("nvcc could not compile {name}.cu: {status}"),
            Err(error) => panic!(
                "nvcc could not be run ({error}): install the CUDA toolkit, set CUDA_HOME, or use scripts/cuda-toolkit.sh"
            ),
        }
    }
}

/// The kernels have instructions that came with Ampere. The compiler does not look at them, and no driver loads what it makes for older GPUs.
fn check(capability: &str) {
    let digits = capability.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    assert!(
        digits.parse::<u32>().is_ok_and(|number| number >= 80),
        "CUDA_COMPUTE_CAP is {capability}: give a compute capability without its dot, and at least 80, since the kernels need an Ampere GPU or a newer one"
    );
}

fn compiler() -> PathBuf {
    if let Some(nvcc) = std::env::var_os("NVCC") {
        return nvcc.into();
    }
    let home = std::env::var_os("CUDA_HOME").or_else(|| std::env::var_os("CUDA_PATH"));
    home.map_or_else(|| "nvcc".into(), |home| PathBuf::from(home).join("bin/nvcc"))
}
