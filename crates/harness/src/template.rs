//! Reads `template.yaml`, and compares it with the settings that a program declares.

pub mod applications;
pub mod parameters;
pub mod resolve;
pub mod yaml;
