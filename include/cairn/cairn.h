// cairn.h -- includes the first tier of public headers: what most programs need. Include the others
// by name: those of Orbax's names (orbax/), of the storage layers (storage/), and dlpack.h,
// event_sinks.h, mpi.h, msgpack.h and tensorflow.h.
#pragma once

#include <cairn/bytes.h>
#include <cairn/checkpoint.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/compression.h>
#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/distributed.h>
#include <cairn/error.h>
#include <cairn/inspect.h>
#include <cairn/maintain.h>
#include <cairn/npz.h>
#include <cairn/observer.h>
#include <cairn/open.h>
#include <cairn/options.h>
#include <cairn/safetensors.h>
#include <cairn/step_policies.h>
#include <cairn/steps.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>
