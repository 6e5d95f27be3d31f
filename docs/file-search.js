// Lets the search work where the site is opened as a file. A browser starts no worker from a file, so
// the worker's script runs in a hidden frame, which answers as a worker would.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.inside = new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
          inside.importScripts = () => {} // it would fetch other languages than English
          const script = inside.document.createElement("script")
          script.src = url
          script.onload = () => resolve(inside)
          inside.document.body.append(script)
        }
      })
      document.documentElement.append(frame)
    }
    async postMessage(data) {
      const inside = await this.inside
      inside.dispatchEvent(new MessageEvent("message", { data }))
    }
    terminate() {}
  }
