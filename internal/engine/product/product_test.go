package product

import "testing"

func TestModel(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB":          "a100-80g",
		"NVIDIA-A100-SXM4-80GB":          "a100-80g", // as a label has it
		"A100-PCIE-40GB":                 "a100-40g",
		"NVIDIA H100 80GB HBM3":          "h100-80g",
		"NVIDIA-H100-80GB-HBM3":          "h100-80g",
		"NVIDIA H100 NVL":                "h100-nvl",
		"NVIDIA H200":                    "h200",
		"Tesla V100-SXM2-32GB":           "v100-32g",
		"Tesla T4":                       "t4",
		"NVIDIA GeForce RTX 3090":        "rtx-3090",
		"NVIDIA GeForce RTX 4090":        "rtx-4090",
		"NVIDIA L40S":                    "l40s",
		"NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
		"NVIDIA A100 80GB PCIe":          "a100-80g",
		"NVIDIA GeForce GTX 1080 Ti":     "gtx-1080-ti",
		"":                               "gpu",
		"NVIDIA":                         "gpu",
	} {
		if got := Model(name); got != want {
			t.Errorf("Model(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzModel(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-80GB")
	f.Fuzz(func(t *testing.T, name string) {
		if Model(name) == "" {
			t.Error("empty")
		}
	})
}
