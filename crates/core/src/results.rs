// SPDX-License-Identifier: GPL-2.0-only
//! What a bench stores.
