// Messages of gRPC as bytes, so that no compiler of protocol buffers is needed.
package main

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
)

// rawCodec is known under the name that it has, which is a part of Content-Type.
type rawCodec string

// Registered after the package's own, a codec takes the place of protocol buffers, whose name is not said.
func init() {
	encoding.RegisterCodec(rawCodec(proto.Name))
	encoding.RegisterCodec(rawCodec("raw"))
}

func (codec rawCodec) Name() string { return string(codec) }

func (rawCodec) Marshal(value interface{}) ([]byte, error) {
	message, ok := value.([]byte)
	if !ok {
		return nil, fmt.Errorf("no bytes, but %T", value)
	}
	return message, nil
}

func (rawCodec) Unmarshal(data []byte, value interface{}) error {
	message, ok := value.(*[]byte)
	if !ok {
		return fmt.Errorf("no place for bytes, but %T", value)
	}
	*message = append([]byte(nil), data...)
	return nil
}
