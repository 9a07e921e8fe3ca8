// kstatus answers what the library that Flux, Helm and kpt ask says about an object.
//
// It takes JSON objects on stdin, one a line, and gives one line of JSON for each on stdout:
// {"status":"InProgress","message":"..."}, or {"error":"..."} for an object it cannot judge.
// It ends when stdin ends. Its only caller is e2e/src/testing/kstatus.rs.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type answer struct {
	Status  status.Status `json:"status,omitempty"`
	Message string        `json:"message,omitempty"`
	Error   string        `json:"error,omitempty"`
}

func judge(object []byte) answer {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(object); err != nil {
		return answer{Error: err.Error()}
	}
	result, err := status.Compute(u)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Status: result.Status, Message: result.Message}
}

func main() {
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		var object json.RawMessage
		err := in.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			// The rest of a broken stream cannot be split into objects again.
			_ = out.Encode(answer{Error: err.Error()})
			os.Exit(1)
		}
		if err := out.Encode(judge(object)); err != nil {
			os.Exit(1)
		}
	}
}
