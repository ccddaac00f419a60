//! Where a model runs: the CPU or a GPU, by the names that command lines and recipes use (`cpu`, `cuda`, `cuda:1`,
//! `metal`).
//!
//! This is a choice; `candle_core::Device` is the opened device. `on_device!` is the one match over opened devices:
//! operations that differ between them have the modules `cpu`, `cuda` and `candle` side by side (in `ops` and in
//! `attention`).

use std::str::FromStr;

use crate::{Error, Result};

/// Where a model runs.
///
/// ```
/// use gradus_engine::Device;
/// assert_eq!("cuda:1".parse(), Ok(Device::Cuda(1)));
/// assert!("gpu".parse::<Device>().is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
    /// An Apple GPU.
    Metal,
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            None if text == "metal" => Ok(Self::Metal),
            Some(("cuda", number)) => {
                number.parse().map(Self::Cuda).map_err(|_| format!("`{number}` is not a GPU's number"))
            }
            _ => Err(format!("`{text}` is not one of cpu, cuda, cuda:N, metal")),
        }
    }
}

impl Device {
    /// The device, ready for tensors.
    pub(crate) fn open(self) -> Result<candle_core::Device> {
        let device = match self {
            Self::Cpu => Ok(candle_core::Device::Cpu),
            Self::Cuda(number) => open_cuda(number),
            Self::Metal => candle_core::Device::new_metal(0),
        };
        device.map_err(|error| match self {
            Self::Cuda(_) if !cfg!(feature = "cuda") => Error::request(
                "this program was built without CUDA: build it with `--features cuda`, or use --device cpu",
            ),
            Self::Metal if !cfg!(feature = "metal") => Error::request(
                "this program was built without Metal: build it with `--features metal`, or use --device cpu",
            ),
            _ => Error::request(format!("the device cannot be used: {}", first_line(&error))),
        })
    }
}

#[cfg(feature = "cuda")]
use crate::cuda::open as open_cuda;

#[cfg(not(feature = "cuda"))]
fn open_cuda(number: usize) -> candle_core::Result<candle_core::Device> {
    candle_core::Device::new_cuda(number)
}

fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Calls a function of the caller's module `cpu`, `cuda` or `candle`, as the device of the tensors demands: our kernels
/// on CPUs and NVIDIA GPUs, candle's own operations elsewhere.
macro_rules! on_device {
    ($device:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $device.location() {
            candle_core::DeviceLocation::Cpu => cpu::$function($($argument),*),
            #[cfg(feature = "cuda")]
            candle_core::DeviceLocation::Cuda { .. } => cuda::$function($($argument),*),
            _ => candle::$function($($argument),*),
        }
    };
}

pub(crate) use on_device;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_names() {
        assert_eq!("cpu".parse(), Ok(Device::Cpu));
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        assert_eq!("metal".parse(), Ok(Device::Metal));
        assert_eq!("cuda:x".parse::<Device>(), Err("`x` is not a GPU's number".to_owned()));
        assert_eq!(
            "cpu:0".parse::<Device>(),
            Err("`cpu:0` is not one of cpu, cuda, cuda:N, metal".to_owned())
        );
    }
}
